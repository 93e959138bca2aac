"""The navigation of the documentation site, and the links between its pages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.site.__main__ import CONFIG, PROJECT, pages

IN_AN_INDEX = ("docs/decisions/0*", "examples/*/*")
"""Pages that the index of their folder lists."""

PAGES = [page for page in pages() if page.suffix == ".md"]

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<file>[^()#\s]*)(?:#(?P<anchor>[^()\s]+))?\)")
_CODE = re.compile(r"^```.*?^```$|^    [^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_navigation_has_each_page_once() -> None:
    listed = sorted(_paths(tomllib.loads(CONFIG.read_text())["project"]["nav"]))
    own = [page for page in pages() if page.suffix == ".md" and not any(map(page.match, IN_AN_INDEX))]
    assert sorted(set(map(str, own)) - set(listed)) == []
    assert [page for page in listed if not CONFIG.parents[2].joinpath(page).is_file()] == []
    assert len(set(listed)) == len(listed)


def _paths(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from _paths(target)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    folder = (PROJECT / page).parent
    broken = []
    for match in _LINK.finditer(_CODE.sub("", (PROJECT / page).read_text())):
        file, anchor = match["file"], match["anchor"]
        if ":" in file:
            continue  # of another site
        target = folder / file if file else PROJECT / page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.resolve())):
            broken.append(match[0])
    assert broken == []


@cache
def anchors(page: Path) -> frozenset[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


def test_anchors(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# `plan`, first\n\n```sh\n# comment\n```\n## Two & more\n")
    assert anchors(tmp_path / "page.md") == {"plan-first", "two--more"}
