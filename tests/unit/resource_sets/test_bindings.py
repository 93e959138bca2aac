"""The records of ClusterResourceSets in the bindings of Clusters."""

from __future__ import annotations

import pytest

from functions.cluster_resource_set.bindings import is_recorded, leave, merged, new_binding
from shared.api.resource_set import SourceRef, binding_entry, recorded_sources
from shared.effects import Delete, Patch, would_change
from shared.kube import Object

CLUSTER = {"metadata": {"namespace": "ns", "name": "demo"}}


def resource_set(name: str = "set", uid: str = "") -> Object:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    return {"apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet", "metadata": metadata}


def record(name: str = "one", *, applied: bool = True, time: str = "t1", **fields: str) -> Object:
    return {"kind": "ConfigMap", "name": name, "applied": applied, "lastAppliedTime": time, **fields}


def changed(binding: Object, patch: Object) -> Object:
    return {**binding, **{part: {**binding[part], **patch[part]} for part in ("metadata", "spec")}}


def binding(*records: Object, of: str = "set") -> Object:
    return new_binding(resource_set(of), CLUSTER, records)


def test_new_binding() -> None:
    found = binding(record())
    assert found["metadata"]["name"] == found["spec"]["clusterName"] == "demo"
    assert "controller" not in found["metadata"]["ownerReferences"][0]
    assert found["spec"]["bindings"] == [{"clusterResourceSetName": "set", "resources": [record()]}]
    assert is_recorded(found, resource_set())
    assert not is_recorded(found, resource_set("other"))
    assert not is_recorded(found, resource_set(uid="of a later set"))
    assert not is_recorded(None, resource_set())


@pytest.mark.parametrize(
    ("before", "after", "is_written"),
    [
        pytest.param(record(time="t1"), record(time="t2"), True, id="applied again"),
        pytest.param(record(hash="a"), record(hash="b"), True, id="new content"),
        pytest.param(record(applied=False), record(applied=True), True, id="healed"),
        pytest.param(record(applied=True), record(applied=False), True, id="failed"),
        pytest.param(record(applied=False, time="t1"), record(applied=False, time="t2"), False, id="failed again"),
        pytest.param(record(applied=False, hash="a"), record(applied=False, hash="b"), True, id="failed otherwise"),
    ],
)
def test_record_is_written_if_it_differs(before: Object, after: Object, is_written: bool) -> None:
    present = binding(before)
    patch = merged(present, resource_set(), [after], ())
    assert would_change(present, patch) == is_written
    (found,) = recorded_sources(binding_entry(changed(present, patch), "set")).values()
    assert found == (after if is_written else before)


def test_other_sets_and_other_sources_keep_their_records() -> None:
    present = changed(
        binding(record(), record("two")), merged(binding(record()), resource_set("other"), [record()], ())
    )
    present["spec"]["bindings"][0]["resources"] = [record(), record("two")]
    patch = merged(present, resource_set(), [record("three")], {SourceRef("ConfigMap", "one")})
    found = changed(present, patch)
    assert [ref.name for ref in recorded_sources(binding_entry(found, "set"))] == ["two", "three"]
    assert [ref.name for ref in recorded_sources(binding_entry(found, "other"))] == ["one"]


def test_set_leaves_a_binding() -> None:
    shared = changed(binding(record()), merged(binding(record()), resource_set("other"), [record()], ()))
    found = leave(shared, resource_set())
    assert isinstance(found, Patch)
    left = changed(shared, found.patch)
    assert [one["clusterResourceSetName"] for one in left["spec"]["bindings"]] == ["other"]
    assert [one["name"] for one in left["metadata"]["ownerReferences"]] == ["other"]
    assert leave(left, resource_set()) is None
    deleted = leave(left, resource_set("other"))
    assert isinstance(deleted, Delete)
    assert deleted.unchanged
