"""The workflows pin every action by its commit, and grant no right that a job does not name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[3]
WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    uses = [step["uses"] for job in jobs(path).values() for step in job["steps"] if "uses" in step]
    assert uses
    assert [name for name in uses if not PINNED.fullmatch(name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    writing = [name for name, job in workflow["jobs"].items() if "write" in job.get("permissions", {}).values()]
    assert writing in ([], ["publish"], ["deploy"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    called = re.findall(r"\bmake ([a-z-]+)", path.read_text())
    assert set(called) <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_expression_in_a_script(path: Path) -> None:
    """GitHub puts the text of an expression into the script, so a name of a branch would be run as a command."""
    scripts = [step["run"] for job in jobs(path).values() for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []
