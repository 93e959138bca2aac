"""Tables for `shared.kube.selectors`."""

from __future__ import annotations

from typing import Any

import pytest

from shared.kube import selectors
from shared.kube.resources import Object


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        (" ", {"a": "b"}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a = b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=,b=c", {"a": "", "b": "c"}, True),
        ("a!=b", {"a": "b"}, False),
        ("a!=b", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in(b, c )", {"a": "d"}, False),
        ("a in ()", {"a": ""}, True),
        ("a in (b)", {}, False),
        ("a notin (b,c)", {"a": "c"}, False),
        ("a notin (b,c)", {}, True),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("a>1", {"a": "2"}, True),
        ("a > 1", {"a": "1"}, False),
        ("a<10", {"a": "9"}, True),
        ("a<10", {"a": "10"}, False),
        ("a<10", {"a": "x"}, False),
        ("a<10", {"a": "1" * 5000}, False),
        ("a<10", {}, False),
        ("x.y/z-1=v_1.2", {"x.y/z-1": "v_1.2"}, True),
        ("a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1", {"a": "b", "e": "g", "j": "", "l": "2"}, True),
        ("a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1", {"a": "b", "e": "g", "j": "", "l": "2", "k": ""}, False),
        ("a=1", {"a": 1}, False),
    ],
)
def test_selector_text_matches_labels(selector: str, labels: dict[str, Any], expected: bool) -> None:
    assert selectors.matches(selectors.parse(selector), labels) is expected


@pytest.mark.parametrize(
    "selector",
    ["a=b,", ",a=b", "a=b c", "a=b=c", "a in b", "a in (b", "a in (b c)", "!", "!a=b", "=b", "a=-b", "a>", "a>x", "ä"],
)
def test_invalid_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match=r"invalid label selector|needs a number"):
        selectors.parse(selector)


def test_compared_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a number"):
        selectors.parse("a>" + "1" * 5000)


def test_long_invalid_selector_is_refused_in_linear_time() -> None:
    for tail in (", " * 10_000, " " * 100_000, "a-" * 50_000):
        with pytest.raises(ValueError, match="invalid label selector"):
            selectors.parse(f"a in ({tail}!")


@pytest.mark.parametrize(
    ("expression", "labels", "holds", "text"),
    [
        ({"key": "a", "operator": "In", "values": ["x", "y"]}, {"a": "x"}, True, "a in (x,y)"),
        ({"key": "a", "operator": "In", "values": ["x", "y"]}, {}, False, "a in (x,y)"),
        ({"key": "a", "operator": "NotIn", "values": ["x"]}, {}, True, "a notin (x)"),
        ({"key": "a", "operator": "NotIn", "values": ["x"]}, {"a": "x"}, False, "a notin (x)"),
        ({"key": "a", "operator": "Exists"}, {"a": ""}, True, "a"),
        ({"key": "a", "operator": "Exists"}, {}, False, "a"),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False, "!a"),
        ({"key": "a", "operator": "DoesNotExist"}, {}, True, "!a"),
    ],
)
def test_label_selector_object_has_a_text_form_that_selects_the_same(
    expression: Object, labels: dict[str, str], holds: bool, text: str
) -> None:
    selector = {"matchLabels": {"k": "v"}, "matchExpressions": [expression]}
    assert selectors.selects(selector, {**labels, "k": "v"}) is holds
    assert not selectors.selects(selector, labels)
    assert selectors.as_text(selector) == ",".join(filter(None, ["k=v", text]))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("a", True),
        ("a.b_c-1", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("-a", False),
        ("a b", False),
        ("a/b", False),
    ],
)
def test_label_value_has_up_to_63_characters_of_some_kinds(text: str, valid: bool) -> None:
    assert selectors.is_label_value(text) is valid


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["(x"]}]}, "invalid label selector"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "the label 'a': In needs values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "takes no values"),
        ({"matchExpressions": [{"key": "a", "operator": "Has"}]}, "'Has' is not a label selector operator"),
        ({"matchLabels": {"-": ""}}, "invalid label selector"),
    ],
)
def test_invalid_label_selector_object_selects_nothing(selector: Object, message: str) -> None:
    assert not selectors.selects(selector, {"a": "x", "-": ""})
    with pytest.raises(ValueError, match=message):
        selectors.validated(selector)


@pytest.mark.parametrize(("digits", "expected"), [(63, True), (64, False)])
def test_number_in_a_label_has_up_to_63_digits(digits: int, expected: bool) -> None:
    assert selectors.matches(selectors.parse("a>1"), {"a": "9" * digits}) is expected


def test_selector_that_is_too_long_is_refused_and_selects_nothing() -> None:
    def one_of(number: int) -> Object:
        values = [f"cluster-{each:08}" for each in range(number)]
        return {"matchExpressions": [{"key": "name", "operator": "In", "values": values}]}

    labels = {"name": "cluster-00000000"}
    assert selectors.selects(one_of(3_000), labels)
    with pytest.raises(ValueError, match="has more than 65536 characters"):
        selectors.validated(one_of(60_000))
    assert not selectors.selects(one_of(60_000), labels)
