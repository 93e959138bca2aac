"""The commands of the tutorial, as written and in their order, print the lines that it shows."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from urllib.request import urlopen

from tests.support.documents import Shell
from tests.support.pages import ROOT, blocks
from tests.support.until import until

PAGE = ROOT / "docs" / "tutorial.md"
MORE = "..."
_VARYING = (
    (re.compile(r"\S*/\.capi-functions"), ".capi-functions"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b(?:\d+m)?\d+(?:\.\d+)?s\b"), "SECONDS"),
)
"""Parts of the output that are another each time."""


def lines(output: str) -> list[str]:
    """Returns the lines of an output that say something, without the parts that vary."""
    for pattern, stable in _VARYING:
        output = pattern.sub(stable, output)
    return [" ".join(line.split()) for line in output.splitlines() if line.strip()]


def missing(shown: str, output: str) -> list[str]:
    """Returns the lines of a sample that the output lacks, in their order."""
    left = iter(lines(output))
    return [line for line in lines(shown) if line != MORE and line not in left]


def test_commands_print_what_the_tutorial_shows(shell: Shell, tmp_path: Path) -> None:
    install, *rest = sorted(blocks(PAGE), key=lambda block: block.line)
    assert install.text.startswith("make .venv/.installed\n")  # the environment of this test
    output = ""
    for block in rest:
        if not block.is_shell:
            assert missing(block.text, output) == [], output
        elif block.text == "capi-functions console\n":
            expect_console(shell, tmp_path / "console.txt")
        else:
            output = shell.run(f"exec 2>&1\n{block.text}")


def expect_console(shell: Shell, printed: Path) -> None:
    """Opens the overview of the console."""
    process = shell.start(f"capi-functions console >{printed}")
    try:
        until(lambda: printed.exists() and printed.read_text().startswith("http"), "the address of the console")
        with urlopen(printed.read_text().strip()) as response:
            assert "example" in response.read().decode()
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()


def test_missing_lines_are_found() -> None:
    output = "a  1.5s\nb /x/.capi-functions/y\nc 127.0.0.1:80\n"
    assert missing("a 2m3s\n...\nc 127.0.0.1:1\n", output) == []
    assert missing("c 127.0.0.1:1\na 1s\n", output) == ["a SECONDS"]
    assert missing("d\n", output) == ["d"]
