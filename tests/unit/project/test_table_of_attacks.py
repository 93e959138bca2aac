"""The table of attacks (`tests/abuse/README.md`) names tests that exist, and each file of `tests/abuse`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ABUSE = ROOT / "tests" / "abuse"

_TEST = re.compile(r"\| (?P<file>[a-z_/]+\.py)::(?P<name>test_\w+) \|$", re.MULTILINE)


def _named() -> set[str]:
    return {f"{match['file']}::{match['name']}" for match in _TEST.finditer((ABUSE / "README.md").read_text())}


def _tests(file: Path) -> set[str]:
    functions = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def test_tests_in_the_table_exist() -> None:
    named = _named()
    assert len(named) > 100
    for one in sorted(named):
        file, _, name = one.partition("::")
        assert name in _tests(ROOT / file if "/" in file else ABUSE / file), one


def test_every_file_of_attacks_is_in_the_table() -> None:
    assert {file.name for file in ABUSE.glob("test_*.py")} - {one.partition("::")[0] for one in _named()} == set()
