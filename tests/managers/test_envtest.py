"""The commands of the page about migrating from envtest, with a Go program that uses envtest; it is built once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local_control_plane.binaries import locate
from tests.support import processes
from tests.support.command_line import await_end
from tests.support.documents import ROOT, Shell, blocks

PAGE = ROOT / "docs" / "migrating-from-envtest.md"


@pytest.fixture
def suite() -> str:
    """Starts one environment of envtest, stops it, and prints the seconds of both as two lines of JSON."""
    return f"{locate(['envtest-planes'], progress=print)['envtest-planes']} 1 </dev/null"


@pytest.fixture
def planes(shell: Shell, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "planes"
    shell.run(f"export CAPI_FUNCTIONS_PLANES={folder}")
    yield folder
    shell.run("capi-functions local down --all")
    await_end(folder)


@pytest.mark.timeout(3600)
def test_commands_of_the_page_run_a_program_that_uses_envtest(shell: Shell, planes: Path, suite: str) -> None:
    [executables] = blocks(PAGE, "Executables for a Go suite")
    [existing] = blocks(PAGE, "A running control plane for a Go suite")
    [back] = blocks(PAGE, "The way back")
    assert executables.count("go test ./...") == existing.count("go test ./...") == 1
    expected = r'\{"ready":[\d.]+\}\n\{"stopped":[\d.]+\}\n'
    assert re.fullmatch(expected, shell.run(executables.replace("go test ./...", suite)))
    assert not planes.exists(), "envtest has started its own control plane"
    assert re.search(expected, shell.run(existing.replace("go test ./...", suite)))
    assert shell.succeeds("kubectl get namespaces"), "the control plane outlives the program"
    assert re.search(r"^suite +ready ", shell.run("capi-functions local status"), re.MULTILINE)
    shell.run(back)
    assert not (planes / "suite").exists()


def test_suite_in_python_of_the_page_passes(tmp_path: Path, kubectl: Path) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "test_page.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "infra.pytest_plugin"]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = processes.run(
        [*command, "--basetemp", str(tmp_path / "base"), "test_page.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    await_end(tmp_path / "base")
