"""The navigation of the documentation site."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.site.__main__ import CONFIG, pages

UNLISTED = ("docs/decisions/", "examples/")
"""Pages that the index of their folder lists."""


def test_navigation_has_each_page_once() -> None:
    listed = sorted(_paths(tomllib.loads(CONFIG.read_text())["project"]["nav"]))
    expected = {
        str(page)
        for page in pages()
        if page.suffix == ".md" and (page.name == "README.md" or not str(page).startswith(UNLISTED))
    }
    missing = {page for page in expected if page not in listed and not Path(page).parent.match("examples/*")}
    assert missing == set()
    assert [page for page in listed if not CONFIG.parents[2].joinpath(page).is_file()] == []
    assert len(set(listed)) == len(listed)


def _paths(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from _paths(target)
