"""The suite of the page about migrating from envtest."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.support import processes
from tests.support.command_line import await_end
from tests.support.documents import ROOT

PAGE = ROOT / "docs" / "migrating-from-envtest.md"


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
