"""Versions of charts: the results are those of Masterminds/semver 3.4.0."""

from __future__ import annotations

import pytest

from shared.helm_charts.versions import InvalidRange, is_exact, newest, parse_range, parse_version

_STABLE = "0.0.3 0.0.4 0.2.3 0.2.5 0.5.6 1.0.0 1.1.1 1.2.3 1.2.4 1.3.4 2.0.0 3.0.0"
_PRERELEASES = "1.2.3-alpha.1 1.2.4-beta 2.0.0-rc.1"
OFFERED = [*_STABLE.split(), *_PRERELEASES.split()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.3", "1.2.3"),
        ("=1.2.3", "1.2.3"),
        ("1.2", "1.2.3 1.2.4"),
        ("1.x", "1.0.0 1.1.1 1.2.3 1.2.4 1.3.4"),
        ("1.2.*", "1.2.3 1.2.4"),
        ("*", _STABLE),
        ("*-0", " ".join(OFFERED)),
        ("~1.2.3", "1.2.3 1.2.4"),
        ("~1", "1.0.0 1.1.1 1.2.3 1.2.4 1.3.4"),
        ("~0.0.0", _STABLE),
        ("~1.2.3-alpha", "1.2.3 1.2.4 1.2.3-alpha.1 1.2.4-beta"),
        ("^1.2.3", "1.2.3 1.2.4 1.3.4"),
        ("^0.2.3", "0.2.3 0.2.5"),
        ("^0.0.3", "0.0.3"),
        ("^0.0", "0.0.3 0.0.4"),
        ("^0", "0.0.3 0.0.4 0.2.3 0.2.5 0.5.6"),
        (">1.2", "1.3.4 2.0.0 3.0.0"),
        (">1.2.3", "1.2.4 1.3.4 2.0.0 3.0.0"),
        (">=1.3.4", "1.3.4 2.0.0 3.0.0"),
        ("<0.2.5", "0.0.3 0.0.4 0.2.3"),
        ("<=1.1", "0.0.3 0.0.4 0.2.3 0.2.5 0.5.6 1.0.0 1.1.1"),
        ("!=1.2 >1 <2", ""),
        (">=1.2, !=1.2.4, <2", "1.2.3 1.3.4"),
        (">=1.2 <1.2.4", "1.2.3"),
        ("1.2 - 2", "1.2.3 1.2.4 1.3.4 2.0.0"),
        ("<0.0.4 || ~1.3 || 3", "0.0.3 1.3.4 3.0.0"),
        (">=2.0.0-0", "2.0.0 3.0.0 2.0.0-rc.1"),
        (">=2.0.0-0 <2 || 1.0.0", "1.0.0 2.0.0-rc.1"),
    ],
)
def test_versions_in_a_range(text: str, expected: str) -> None:
    matches = parse_range(text)
    assert [offered for offered in OFFERED if matches(parse_version(offered))] == expected.split()


@pytest.mark.parametrize(
    "text",
    ["latest", ">= bar", "1.2.3.4", "12.3.34~ 1.2.3", "1||", "||", ", 1", "1,,2", "1,", ">>1", "1.2.3-01", "a" * 300],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidRange):
        parse_range(text)


@pytest.mark.parametrize(
    ("version", "offered", "expected"),
    [
        ("", ["1.0.0", "1.10.0", "1.9.0", "2.0.0-rc.1"], "1.10.0"),
        ("", ["2.0.0-rc.1"], None),
        ("^1", ["1.0.0", "v1.4", "2.0.0", "x", "1.2.3.4"], "v1.4"),
        ("1.2", ["1.2", "1.2.9"], "1.2"),
        ("1.2.3", ["v1.2.3"], "v1.2.3"),
        ("1.2.3+a", ["1.2.3+b", "1.2.3+a"], "1.2.3+a"),
        ("2", ["1.0.0"], None),
        ("1", [], None),
    ],
)
def test_newest(version: str, offered: list[str], expected: str | None) -> None:
    assert newest(version, offered) == expected


@pytest.mark.parametrize(
    ("text", "exact"),
    [("1.2.3", True), ("v1.2.3-rc.1+b", True), ("1.2", False), ("1.2.x", False), ("^1.2.3", False), ("", False)],
)
def test_exact_versions(text: str, exact: bool) -> None:
    assert is_exact(text) is exact
