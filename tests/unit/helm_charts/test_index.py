"""The index of a repository, and credentials in a config.json."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from shared.helm_charts.docker_config import InvalidConfig, login
from shared.helm_charts.index import IndexEntry, InvalidIndex, parse_index

_GOOD = {"version": "1.0.0", "urls": ["a.tgz", "b.tgz"], "digest": "AB"}


def _index(*entries: Any, **more: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "entries": {"demo": entries, "other": [_GOOD]}} | more).encode()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (_GOOD, IndexEntry("1.0.0", "a.tgz", "ab")),
        ({"version": "v1.2", "urls": ["a.tgz"], "digest": "sha256:ab"}, IndexEntry("v1.2", "a.tgz", "ab")),
        ({"version": "1.0.0", "urls": ["a.tgz"], "digest": None}, IndexEntry("1.0.0", "a.tgz")),
        ({"version": "latest", "urls": ["a.tgz"]}, None),
        ({"urls": ["a.tgz"]}, None),
        ({"version": "1.0.0"}, None),
        ({"version": "1.0.0", "urls": []}, None),
        ({"version": "1.0.0", "urls": "a.tgz"}, None),
        ({"version": ["1.0.0"], "urls": [None]}, None),
        ("text", None),
        (None, None),
    ],
)
def test_entries_that_cannot_be_used_are_skipped(entry: Any, expected: IndexEntry | None) -> None:
    last = IndexEntry("0.1.0", "z.tgz")
    assert parse_index(_index(entry, {"version": "0.1.0", "urls": ["z.tgz"]}), "demo") == [
        *([expected] if expected else []),
        last,
    ]


def test_versions_are_texts() -> None:
    assert parse_index(b"apiVersion: v1\nentries: {a: [{version: 1.10, urls: [b]}]}\n", "a") == [
        IndexEntry("1.10", "b")
    ]


@pytest.mark.parametrize("entries", [{"demo": "text"}, {"demo": {}}, {"demo": None}, [], None, "text", {}])
def test_index_without_the_chart(entries: Any) -> None:
    assert parse_index(_index(entries=entries), "demo") == []


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"[]", b"a: [", b"? [a]\n: b", b"entries: {}", b"\xff\xfe\x00", b"[" * 300]
)
def test_other_texts_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidIndex):
        parse_index(text, "demo")


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("server", "host", "found"),
    [
        ("a.example", "a.example", True),
        ("https://a.example/v1/", "a.example", True),
        ("a.example:443", "a.example", True),
        ("A.example", "a.example:443", True),
        ("a.example:5000", "a.example:5000", True),
        ("https://index.docker.io/v1/", "docker.io", True),
        ("a.example", "a.example:5000", False),
        ("a.example/team", "a.example", False),
        ("a.example.evil.example", "a.example", False),
        ("", "a.example", False),
    ],
)
def test_login_is_for_its_host(server: str, host: str, found: bool) -> None:
    config = json.dumps({"auths": {"x.example": _auth("x:y"), server: _auth("user:pass:word")}}).encode()
    assert login(config, host) == (("user", "pass:word") if found else None)


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"[]",
        b"{}",
        b'{"auths": []}',
        *(
            json.dumps({"auths": {"a.example": entry}}).encode()
            for entry in (
                {},
                {"auth": "!"},
                {"auth": ""},
                {"username": "a"},
                {"username": 1, "password": 2},
                _auth("a\nb:c"),
            )
        ),
    ],
)
def test_other_configs_are_refused(config: bytes) -> None:
    with pytest.raises(InvalidConfig):
        login(config, "a.example")
