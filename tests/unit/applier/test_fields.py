"""Fields by path, and comparison of live and applied objects."""

from __future__ import annotations

from typing import Any

import pytest

from shared.applier.fields import contains, differences, resolve, stored, with_live, without, without_nulls
from shared.kube import Object

OBJECT: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"app.kubernetes.io/name": "web", "app": "w"}, "finalizers": ["a", "b/c"]},
    "spec": {
        "replicas": 2,
        "containers": [{"name": "web", "image": "i:1"}, {"name": "side", "image": "j:1"}],
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}],
    },
}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        (".spec.replicas", ["spec", "replicas"]),
        ("spec.replicas", ["spec", "replicas"]),
        (".metadata.labels.app.kubernetes.io/name", ["metadata", "labels", "app.kubernetes.io/name"]),
        (".metadata.labels.app", ["metadata", "labels", "app"]),
        ('.spec.containers[name="side"].image', ["spec", "containers", 1, "image"]),
        ('.spec.ports[port=80,protocol="UDP"]', ["spec", "ports", 1]),
        ('.metadata.finalizers[="b/c"]', ["metadata", "finalizers", 1]),
        (".spec.containers[1].name", ["spec", "containers", 1, "name"]),
        (f".spec.containers[{'9' * 5000}]", None),
        (f".spec.containers[{'9' * 900}]", None),
        (f".spec.containers[name={'[' * 900}]", None),
        ('.spec.containers[name="side"', None),
        (".spec.containers[name=side].image", None),
        (".spec.ports[port=80,0]", None),
        (".spec.ports[]", None),
        (f"{'.' * 1015}.spec.replicas", None),
        (".spec.missing", None),
        ('.spec.containers[name="none"].image', None),
        (".spec.replicas.deeper", None),
        ("", []),
    ],
)
def test_resolve_follows_a_path(path: str, steps: list[Any] | None) -> None:
    assert resolve(OBJECT, path) == steps


def test_without_removes_a_field() -> None:
    assert without(OBJECT, '.spec.containers[name="web"].image')["spec"]["containers"][0] == {"name": "web"}
    assert OBJECT["spec"]["containers"][0]["image"] == "i:1"
    assert without(OBJECT, ".spec.missing") == OBJECT


@pytest.mark.parametrize(
    ("named", "left"),
    [
        pytest.param(["spec.provider", "spec.items[0].config"], {"keep": None, "items": [{"a": 1}, None]}, id="nulls"),
        pytest.param(
            ["spec.keep", "spec.none"], {"provider": None, "items": [{"a": 1, "config": None}, None]}, id="one"
        ),
        pytest.param(["spec.items", "spec.items[0].a", "spec.items[1]", "spec", ""], None, id="values, items"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_null_fields_that_are_refused_are_left_out(named: list[str], left: Object | None) -> None:
    spec = {"provider": None, "keep": None, "items": [{"a": 1, "config": None}, None]}
    causes = [{"reason": "FieldValueTypeInvalid", "field": name} for name in named]
    expected = {"spec": left} if left else None
    assert without_nulls({"spec": spec}, {"details": {"causes": causes}}) == expected
    assert spec["items"] == [{"a": 1, "config": None}, None]


@pytest.mark.parametrize("refusal", [None, {}, {"details": None}, {"details": {"causes": ["x", None, {"field": 1}]}}])
def test_malformed_refusal_names_nothing(refusal: Object | None) -> None:
    assert without_nulls({"spec": {"x": None}}, refusal) is None


def test_with_live_copies_the_live_value() -> None:
    live = {"spec": {"replicas": 7}}
    assert with_live(OBJECT, live, "spec.replicas")["spec"]["replicas"] == 7
    assert OBJECT["spec"]["replicas"] == 2
    assert with_live(OBJECT, {}, "spec.replicas") == OBJECT


@pytest.mark.parametrize(
    ("live", "wanted", "found"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {"a": "1"}, ["a"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2, "d": 3}}}, ["a.b.c", "a.b.d"]),
        ({"l": [{"x": 1, "y": 2}]}, {"l": [{"x": 1}]}, []),
        ({"l": [1, 2]}, {"l": [1]}, ["l"]),
        ({}, {"a": {}, "b": [], "c": None}, []),
        ({"a": None}, {"a": {"b": 1}}, ["a"]),
    ],
)
def test_contains_and_differences_agree(live: Any, wanted: Any, found: list[str]) -> None:
    assert differences(live, wanted) == found
    assert contains(live, wanted) is (not found)


@pytest.mark.parametrize(
    ("live", "wanted", "form"),
    [
        ({"a": "1", "b": 2}, {"a": "1000m"}, {"a": "1"}),
        ({"b": 2}, {"a": False}, {}),
        ({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5}}, {"a": {"b": 1}}),
        ({"l": [{"x": 1, "default": 2}]}, {"l": [{"x": 1, "empty": ""}]}, {"l": [{"x": 1}]}),
        (
            {"l": [{"x": 1, "default": 2}, {"injected": 1}]},
            {"l": [{"x": 1}]},
            {"l": [{"x": 1, "default": 2}, {"injected": 1}]},
        ),
    ],
    ids=["another quantity", "left out", "only what is written", "items of a list", "a longer list as a whole"],
)
def test_stored_returns_the_applied_fields_as_the_server_has_them(live: Any, wanted: Any, form: Any) -> None:
    assert stored(live, wanted) == form


@pytest.mark.parametrize(
    ("live", "contained"),
    [
        ([{"uid": "u", "name": "a"}], True),
        ([{"uid": "x", "name": "b"}, {"uid": "u", "name": "a", "blockOwnerDeletion": True}], True),
        ([{"uid": "x", "name": "b"}], False),
        ([], False),
        (None, False),
    ],
)
def test_owner_references_are_compared_by_uid(live: list[Object] | None, contained: bool) -> None:
    wanted: Object = {"metadata": {"ownerReferences": [{"uid": "u", "name": "a"}]}}
    found: Object = {"metadata": {"ownerReferences": live}}
    assert contains(found, wanted) is contained
    assert differences(found, wanted) == ([] if contained else ["metadata.ownerReferences"])
