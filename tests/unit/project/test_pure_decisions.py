"""Decisions depend on what was observed and on `now` alone, because their modules read nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FUNCTIONS = Path(__file__).parents[3] / "functions"
DECIDING = sorted(
    file for name in ("decide", "planning", "objects", "report") for file in FUNCTIONS.glob(f"*/{name}.py")
)
IMPURE = {"os", "pathlib", "random", "secrets", "socket", "subprocess", "tempfile", "threading", "time", "uuid"}


def readings(source: str) -> set[str]:
    """Returns the impure modules that the source imports, and its calls of a clock."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names} & IMPURE
            case ast.ImportFrom(module=str(module)):
                found |= {module.partition(".")[0]} & IMPURE
                found |= {module} & {"shared.settings"}
            case ast.Call(func=ast.Attribute(attr="now" | "utcnow" | "today" as clock)):
                found.add(clock)
    return found


def test_readings_are_found() -> None:
    assert readings("import os.path\nfrom time import sleep\ndatetime.now(UTC)\nbuilder.now") == {"os", "time", "now"}
    assert len(DECIDING) >= 19


@pytest.mark.parametrize("file", DECIDING, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_decision_reads_nothing_by_itself(file: Path) -> None:
    assert readings(file.read_text()) == set()
