"""docs/glossary.md names files, and names in them, that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
ROW = re.compile(r"^\| (?P<term>[^|]+) \| [^|]+ \| `(?P<file>[\w/.]+)`(?:: (?P<names>.+))? \|$", re.MULTILINE)
ROWS = [match.groups() for match in ROW.finditer((PROJECT / "docs/glossary.md").read_text())]


def test_every_row_names_a_file() -> None:
    text = (PROJECT / "docs/glossary.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| term ")]
    assert len(rows) == len(ROWS) > 50


@pytest.mark.parametrize(("term", "file", "names"), ROWS, ids=[row[0] for row in ROWS])
def test_named_code_exists(term: str, file: str, names: str | None) -> None:
    code = (PROJECT / file).read_text()
    missing = [name for name in re.findall(r"`(\w+)`", names or "") if not re.search(rf"\b{name}\b", code)]
    assert missing == [], term
