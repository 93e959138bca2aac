"""The commands of a Markdown document, run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local_control_plane.cache import cache_directory
from tests.support import processes

ROOT = Path(__file__).parents[2]


def blocks(document: Path, section: str = "") -> list[str]:
    """The indented blocks of commands in a Markdown document, or in its section of that heading, as shell scripts."""
    text = document.read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert text, f"{document} has no section {section}"
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    ]


class Shell:
    """Runs blocks one after the other in a folder that looks like a clone; exported variables stay."""

    def __init__(self, folder: Path, path: str) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "PATH": path,
            "HOME": str(folder),
            "CAPI_FUNCTIONS_CACHE": str(cache_directory()),
        }
        self._environment.pop("KUBECONFIG", None)

    def run(self, block: str) -> str:
        kept = self._folder / "environment"
        script = f"set -e\n{block}\nenv -0 >{kept}\n"
        done = processes.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        self._environment = dict(line.split("=", 1) for line in kept.read_text().split("\0") if line)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        return processes.start(
            ["bash", "-c", f"exec {command}"], cwd=self._folder, env=self._environment, process_group=0
        )

    def succeeds(self, command: str) -> bool:
        done = processes.run(["bash", "-c", command], cwd=self._folder, env=self._environment, capture_output=True)
        return done.returncode == 0


@pytest.fixture
def shell(tmp_path: Path, kubectl: Path) -> Iterator[Shell]:
    for name in ("infra", "functions", "events", "shared", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    shell = Shell(
        tmp_path, f"{Path(sys.executable).parent}{os.pathsep}{kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    )
    yield shell
    shell.run("capi-functions down")
