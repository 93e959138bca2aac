"""Merge patches (RFC 7396) and JSON patches (RFC 6902), and their limits."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from shared.components.json_patch import Budget, apply_operations, merge


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "b"}, {}, {"a": "b"}),
    ],
    ids=str,
)
def test_merge_patch_merges_as_rfc_7396(document: Any, patch: Any, expected: Any) -> None:
    assert merge(document, patch, Budget()) == expected


def op(name: str, path: str, *value: Any, source: str | None = None) -> dict[str, Any]:
    more = {"from": source} if source is not None else {"value": value[0]} if value else {}
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"a": 1}, [op("add", "/b", 2)], {"a": 1, "b": 2}),
        ({"a": 1}, [op("add", "/a", None)], {"a": None}),
        ({"a": [1, 2]}, [op("add", "/a/1", 3)], {"a": [1, 3, 2]}),
        ({"a": [1, 2]}, [op("add", "/a/2", 3)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [op("add", "/a/-", [2])], {"a": [1, [2]]}),
        ({"a": 1}, [op("add", "", {"b": 2})], {"b": 2}),
        ({"a": {}}, [op("add", "/a/", 1)], {"a": {"": 1}}),
        ({"a": 1, "b": 2}, [op("remove", "/b")], {"a": 1}),
        ({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
        ({"a": None}, [op("remove", "/a")], {}),
        ({"a": 1}, [op("replace", "/a", [2])], {"a": [2]}),
        ({"a": [1, 2]}, [op("replace", "/a/1", 3)], {"a": [1, 3]}),
        ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
        ({"a": {"x": 1}, "b": {}}, [op("move", "/b/y", source="/a/x")], {"a": {}, "b": {"y": 1}}),
        ({"a": [1, 2, 3]}, [op("move", "/a/2", source="/a/0")], {"a": [2, 3, 1]}),
        ({"a": 1}, [op("move", "/a", source="/a")], {"a": 1}),
        ({"a": {"b": 1}}, [op("move", "/a", source="/a/b")], {"a": 1}),
        ({"a": [1]}, [op("copy", "/b", source="/a"), op("add", "/b/-", 2)], {"a": [1], "b": [1, 2]}),
        ({"a": 1}, [op("copy", "/b", source="")], {"a": 1, "b": {"a": 1}}),
        ({"a/b": 1, "m~n": 2, "~1": 3}, [op("remove", "/a~1b"), op("remove", "/m~0n")], {"~1": 3}),
        ({"~1": 3}, [op("replace", "/~01", 4)], {"~1": 4}),
        ({"a": {"b": [1, None]}}, [op("test", "/a", {"b": [1, None]})], {"a": {"b": [1, None]}}),
        ({"a": 1}, [op("test", "/a", 1.0)], {"a": 1}),
        ({"0": 1}, [op("remove", "/0")], {}),
        ({"a": 1}, [{"op": "remove", "path": "/a", "value": None, "comment": "ignored"}], {}),
        ({"a": 1}, [], {"a": 1}),
    ],
    ids=str,
)
def test_operations_change_the_document_as_rfc_6902(document: Any, operations: list[Any], expected: Any) -> None:
    assert apply_operations(document, operations, Budget()) == expected


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (op("add", "/x/y", 1), "operation 0 (add /x/y): member 'x' not"),
        (op("add", "/list/3", 1), "can't insert outside of list"),
        (op("add", "/list/01", 1), "'01' is not a valid sequence index"),
        (op("add", "/list/-1", 1), "'-1' is not a valid sequence index"),
        (op("add", "/list/a", 1), "'a' is not a valid sequence index"),
        (op("add", "/text/a", 1), "Cannot apply token 'a' to non-container"),
        (op("add", "/text/a/b", 1), "Cannot apply token 'a' to non-container"),
        (op("add", "/new"), "needs op"),
        (op("remove", "/x"), "operation 0 (remove /x): can't remove a non-existent object 'x'"),
        (op("remove", "/list/2"), "can't remove a non-existent object '2'"),
        (op("remove", "/list/-"), "invalid array index '-'"),
        (op("remove", ""), "can't remove the whole document"),
        (op("replace", "/x", 1), "can't replace a non-existent object 'x'"),
        (op("replace", "/list/-", 1), "'path' with '-' can't be applied"),
        (op("replace", "/text"), "needs op"),
        (op("move", "/text"), "needs op"),
        (op("move", "/y", source="/x"), "member 'x' not"),
        (op("move", "/map/in/it", source="/map"), "Cannot move values into their own children"),
        (op("move", "/y", source="list"), "Location must start with /"),
        (op("copy", "/y", source="/x"), "member 'x' not"),
        (op("test", "/one", True), "the value is missing or differs"),
        (op("test", "/text", 1), "the value is missing or differs"),
        (op("test", "/x", None), "the value is missing or differs"),
        (op("merge", "/text", 1), "needs op"),
        (op("remove", "text"), "Location must start with /"),
        (op("remove", "/te~2xt"), "Found invalid escape ~2"),
        ({"op": "remove", "path": 1}, "operation 0 (remove 1): needs op"),
        ({"op": "remove"}, "operation 0: needs op"),
        ("op and path", "operation 0: needs op"),
        (None, "operation 0: needs op"),
    ],
    ids=str,
)
def test_invalid_operation_is_an_error(operation: Any, message: str) -> None:
    document = {"text": "t", "one": 1, "list": [1, 2], "map": {"in": {}}}
    with pytest.raises(ValueError, match="operation 0") as caught:
        apply_operations(document, [operation], Budget())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "operation",
    [
        op("replace", "/token", "hush"),
        op("add", "/x/y", "hush"),
        op("add", "/text/x", "hush"),
        op("add", "/list/9", "hush"),
        op("remove", "/map/x"),
        op("remove", "/list/9"),
        op("move", "/y", source="/x"),
        op("move", "/y", source="/map/x"),
        op("move", "/y", source="/text/0"),
        op("copy", "/y", source="/list/9"),
        op("copy", "/y", source="/list/-/x"),
        op("copy", "/x/y", source="/map"),
        op("test", "/list", ["other hush"]),
        op("test", "/text", "other hush"),
        op("test", "/x", "other hush"),
    ],
    ids=str,
)
def test_error_names_the_operation_without_values(operation: Any) -> None:
    document = {"text": "hush", "list": ["hush"], "map": {"in": "hush"}}
    with pytest.raises(ValueError, match=rf"^operation 1 \({operation['op']} {operation['path']}\)") as caught:
        apply_operations(document, [op("add", "/a", 1), operation], Budget())
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__  # a traceback quotes none either


def test_added_values_are_copies() -> None:
    value = {"list": [1]}
    patch = {"a": value}
    documents = [merge({}, patch, Budget()) for _ in range(2)]
    documents += [apply_operations({}, [op("add", "/a", value)], Budget()) for _ in range(2)]
    for document in documents:
        document["a"]["list"].append(2)
    assert (patch, value) == ({"a": {"list": [1]}}, {"list": [1]})
    assert all(document == {"a": {"list": [1, 2]}} for document in documents)


# -- hostile patches -----------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "operations",
    [
        [op("copy", f"/{number}", source="") for number in range(40)],
        [op("copy", "/list/-", source="/list")] * 40,
        [op("add", "/list/-", list(range(1000)))] * 201,
    ],
    ids=["whole", "list", "many"],
)
def test_copies_of_copies_exhaust_the_budget(operations: list[Any]) -> None:
    with pytest.raises(ValueError, match="too many values"):
        apply_operations({"list": [1]}, operations, Budget())


def test_budget_is_shared_by_all_documents() -> None:
    budget, patch = Budget(24), {"a": {"b": [1, 2, 3]}}  # 6 values
    for _ in range(4):
        merge({}, deepcopy(patch), budget)
    with pytest.raises(ValueError, match="too many values"):
        merge({}, patch, budget)


@pytest.mark.parametrize(
    "operations",
    [
        [op("add", "/a" * 100, deep(101))],
        [op("replace", "/a" * 100, deep(101))],
        [op("copy", "/a" * 100 + "/new", source="")],
        [op("move", "/a" * 100 + "/new", source="/b")],
        [op("remove", "/a" * 201)],
    ],
    ids=lambda operations: operations[0]["op"],
)
def test_added_value_beyond_the_nesting_limit_is_refused(operations: list[Any]) -> None:
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        apply_operations(deep(100) | {"b": deep(100)}, operations, Budget())


def test_merged_value_beyond_the_nesting_limit_is_refused() -> None:
    patch = deep(100) | {"value": [1]}
    assert merge({}, deep(200), Budget()) == deep(200)
    assert merge({"a": 1}, patch, Budget()) == patch
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        merge({}, {"a": [deep(199)]}, Budget())


@pytest.mark.parametrize("name", ["add", "replace"])
def test_document_at_the_nesting_limit_is_accepted(name: str) -> None:
    result = apply_operations(deep(100), [op(name, "/a" * 100, deep(100))], Budget())
    assert result == deep(200)
    assert apply_operations(result, [op("test", "/a" * 199, {"a": {}})], Budget()) == deep(200)
