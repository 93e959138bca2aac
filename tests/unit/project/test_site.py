"""The navigation of the documentation site."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from infra.site.__main__ import CONFIG, pages

IN_AN_INDEX = ("docs/decisions/0*", "examples/*/*")
"""Pages that the index of their folder lists."""


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
