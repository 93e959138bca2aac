"""YAML is parsed as sigs.k8s.io/yaml does, and documents beyond a limit are refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared import bounded_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("Off", False),
        ("'on'", "on"),
        ("~", None),
        ("010", 8),
        ("0o14", 12),
        ("-0777", -511),
        ("0x1F", 31),
        ("0b11", 3),
        ("08", 8),
        ("1_000", 1000),
        ("_1", "_1"),
        ("1e3", 1000),
        ("1e400", "1e400"),
        ("1.0", 1),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
        ("10:30", "10:30"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T10:00:00Z", "2001-01-01T10:00:00Z"),
        ("18446744073709551615", 2**64 - 1),
        ("=", "="),
        ("!!str 1", "1"),
        ("{2: a, true: b, 1.5: c}", {"2": "a", "true": "b", "1.5": "c"}),
        ("{<<: {a: 1, b: 1}, b: 2}", {"a": 1, "b": 2}),
    ],
)
def test_scalars_and_keys_are_parsed_as_kubernetes_does(text: str, value: Any) -> None:
    found = bounded_yaml.load(f"x: {text}")["x"]
    assert found == value
    assert type(found) is type(value)


def test_aliases_become_copies() -> None:
    document = bounded_yaml.load("a: &a {b: 1}\nc: *a")
    document["a"]["b"] = 2
    assert document["c"] == {"b": 1}


def test_long_documents_are_accepted() -> None:
    assert len(bounded_yaml.load("- [[1], {a: [2]}]\n" * 1000)) == 1000


def tenfold(first: str, line: str) -> str:
    return first + "".join(line.format(n + 1, ",".join([f"*a{n}"] * 10)) for n in range(8))


def merging(merged: list[str]) -> str:
    """`merged` stands for mappings of 5,000 keys each."""
    return f"a: &a {{{', '.join(f'k{n}: 1' for n in range(5_000))}}}\nb: {{<<: [{', '.join(merged)}]}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a: [", "line 2", id="unfinished"),
        pytest.param(tenfold("a0: &a0 [1]\n", "a{0}: &a{0} [{1}]\n"), "more than 1000000 values", id="aliases"),
        pytest.param(
            tenfold("a0: &a0 {k: 1}\n", "a{0}: &a{0} {{<<: [{1}]}}\n"), "more than 1000000? keys", id="merges"
        ),
        pytest.param(merging(["*a"] * 500), "more than 1000000 keys", id="merges side by side"),
        pytest.param("a: &a [*a]", "contains itself", id="cycle"),
        pytest.param("[" * 1_000_000, "200 levels", id="flow depth"),
        pytest.param("- " * 1_000_000, "200 levels", id="block depth"),
        pytest.param("x: .inf", "not valid in JSON", id="infinite"),
        pytest.param("x: !!int abc", "abc", id="a number in name only"),
        pytest.param("x: !!int ''", "invalid literal", id="no number at all"),
        pytest.param("x: !!int '_'", "invalid literal", id="nothing but separators"),
        pytest.param("x: 1" + "0" * 400, "too large", id="a number beyond all floats"),
        pytest.param("!!python/object:os.system x", "tag", id="foreign tag"),
        pytest.param("{[1]: 2}", "key", id="list as key"),
        pytest.param("a: 1\n---\nb: 2", "one YAML document", id="two documents"),
    ],
)
def test_document_beyond_a_limit_is_refused(text: str, words: str) -> None:
    with pytest.raises(bounded_yaml.YAMLError, match=words):
        bounded_yaml.load(text)


def test_limit_is_for_all_documents_of_a_text() -> None:
    """Many small documents are no way around it."""
    document = tenfold("a0: &a0 [1]\n", "a{0}: &a{0} [{1}]\n").partition("a5:")[0]
    assert bounded_yaml.load(document)
    with pytest.raises(bounded_yaml.YAMLError, match="more than 1000000 values"):
        list(bounded_yaml.load_all("---\n".join([document] * 50)))
