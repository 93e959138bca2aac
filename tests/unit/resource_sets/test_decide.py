"""What a ClusterResourceSet applies to which Clusters, and what it leaves behind."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.cluster_resource_set.apply import Applied, ApplySources
from functions.cluster_resource_set.bindings import new_binding
from functions.cluster_resource_set.decide import (
    FAILED_RETRY,
    LEFT_TO_CORE,
    WAIT_RETRY,
    OwnSource,
    decide,
)
from functions.cluster_resource_set.observe import Observed
from functions.cluster_resource_set.sources import Source
from shared.api.resource_set import FINALIZER, OWNED_SOURCES, SOURCE_TYPE, SourceRef
from shared.effects import Delete, Patch, RemoveFinalizer, Results
from shared.kube import Object, owner_reference
from shared.runtime import Decision

NOW = datetime(2026, 11, 26, tzinfo=UTC)
MAP, SECRET = SourceRef("ConfigMap", "one"), SourceRef("Secret", "two")
RECORD = {"applied": True, "lastAppliedTime": "2026-11-25T00:00:00Z"}


def a_set(*refs: SourceRef, strategy: str = "ApplyOnce", name: str = "set", **metadata: Any) -> Object:
    spec = {
        "clusterSelector": {"matchLabels": {"cni": "yes"}},
        "resources": [ref._asdict() for ref in refs or (MAP,)],
        "strategy": strategy,
    }
    own = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "generation": 3, "finalizers": [FINALIZER]}
    own |= {"annotations": {OWNED_SOURCES: " ".join("/".join(ref) for ref in refs or (MAP,))}}
    return {
        "apiVersion": "addons.cluster.x-k8s.io/v1beta2",
        "kind": "ClusterResourceSet",
        "metadata": own | metadata,
        "spec": spec,
    }


def a_cluster(name: str = "demo", *, initialized: bool = True, paused: bool = False) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {"paused": paused},
        "status": {"initialization": {"controlPlaneInitialized": initialized}},
    }


def a_source(ref: SourceRef = MAP, *, owner: Object | None = None, text: str = "kind: x", type_: str = "") -> Object:
    value = base64.b64encode(text.encode()).decode() if ref.kind == "Secret" else text
    metadata: Object = {"namespace": "ns", "name": ref.name, "uid": f"uid-{ref.name}"}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner)]
    return {"kind": ref.kind, "metadata": metadata, "data": {"key": value}} | ({"type": type_} if type_ else {})


def a_binding(resource_set: Object, cluster: Object, *records: Object) -> Object:
    return new_binding(resource_set, cluster, records)


def recorded(ref: SourceRef = MAP, **fields: Any) -> Object:
    return {**ref._asdict(), **RECORD, "hash": Source.of(ref, a_source(ref)).hash, **fields}


def observed(resource_set: Object | None = None, **fields: Any) -> Observed:
    resource_set = resource_set or a_set()
    given = {"clusters": (a_cluster(),), "sources": {MAP: a_source(owner=resource_set)}, **fields}
    return Observed(resource_set, **given)


def work_of(decision: Decision) -> dict[str, tuple[list[str], list[str]]]:
    """Returns the names of due and former sources by Cluster."""
    return {
        one.cluster["metadata"]["name"]: ([source.ref.name for source in one.due], [ref.name for ref in one.former])
        for effect in decision.effects
        if isinstance(effect, ApplySources)
        for one in effect.work
    }


def applied_condition(decision: Decision) -> tuple[str, str, str]:
    conditions = decision.status["conditions"] if decision.status else []
    (found,) = [one for one in conditions if one["type"] == "ResourcesApplied"]
    return found["status"], found["reason"], found["message"]


def test_nothing_is_done_for_a_set_that_is_gone() -> None:
    assert decide(Observed(None), NOW) == Decision(message="the ClusterResourceSet does not exist")


def test_a_set_is_left_to_a_running_core() -> None:
    decision = decide(observed(core="capi-system/capi-controller-manager"), NOW)
    assert (decision.effects, decision.status) == ((), None)
    assert decision.kubernetes_events == (LEFT_TO_CORE,)
    assert decision.message == "Cluster API core capi-system/capi-controller-manager reconciles this object"


def test_a_paused_set_applies_nothing() -> None:
    decision = decide(observed(a_set(annotations={"cluster.x-k8s.io/paused": ""})), NOW)
    assert decision.effects == ()
    assert decision.message == "paused"
    assert (decision.status or {})["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "Paused",
        "status": "True",
        "reason": "Paused",
        "message": "ClusterResourceSet has the cluster.x-k8s.io/paused annotation",
        "lastTransitionTime": "",
        "observedGeneration": 3,
    }


def test_the_first_look_applies_everything() -> None:
    first = a_set(MAP, SECRET, finalizers=[], annotations={})
    sources = {MAP: a_source(), SECRET: a_source(SECRET, type_=SOURCE_TYPE)}
    decision = decide(observed(first, sources=sources, clusters=(a_cluster("a"), a_cluster("b"))), NOW)
    assert work_of(decision) == {"a": (["one", "two"], []), "b": (["one", "two"], [])}
    finalizer, listed, *owners, apply = decision.effects
    assert isinstance(finalizer, Patch)
    assert finalizer.patch["metadata"]["finalizers"] == [FINALIZER]
    assert isinstance(listed, Patch)
    assert listed.patch == {"metadata": {"annotations": {OWNED_SOURCES: "ConfigMap/one Secret/two"}}}
    assert [type(effect) for effect in owners] == [OwnSource, OwnSource]
    assert [effect.patch for effect in owners if isinstance(effect, Patch)] == [
        {"metadata": {"ownerReferences": [owner_reference(first)]}}
    ] * 2
    assert isinstance(apply, ApplySources)
    assert (apply.once, apply.now) == (True, NOW)


@pytest.mark.parametrize(
    ("strategy", "record", "is_due"),
    [
        pytest.param("ApplyOnce", None, True, id="no record, once"),
        pytest.param("Reconcile", None, True, id="no record, reconcile"),
        pytest.param("ApplyOnce", recorded(), False, id="applied"),
        pytest.param("ApplyOnce", recorded(hash="sha256:old"), False, id="changed, once"),
        pytest.param("", recorded(hash="sha256:old"), False, id="changed, default strategy"),
        pytest.param("ApplyOnce", recorded(applied=False), True, id="failed, once"),
        pytest.param("Reconcile", recorded(), False, id="applied, reconcile"),
        pytest.param("Reconcile", recorded(hash="sha256:old"), True, id="changed, reconcile"),
        pytest.param("Reconcile", recorded(applied=False), True, id="failed, reconcile"),
    ],
)
def test_a_source_is_due_by_its_record(strategy: str, record: Object | None, is_due: bool) -> None:
    one, cluster = a_set(strategy=strategy), a_cluster()
    binding = a_binding(one, cluster, *([record] if record else []))
    decision = decide(observed(one, bindings={"demo": binding}), NOW)
    assert work_of(decision) == ({"demo": (["one"], [])} if is_due else {})
    if not is_due:
        assert decision.effects == ()
        assert applied_condition(decision) == ("True", "Applied", "")
        assert (decision.requeue_after, (decision.status or {})["observedGeneration"]) == (None, 3)


def test_a_set_without_an_entry_in_the_binding_writes_one() -> None:
    one, other = a_set(), a_set(name="other")
    binding = a_binding(other, a_cluster(), recorded())
    assert work_of(decide(observed(one, bindings={"demo": binding}), NOW)) == {"demo": (["one"], [])}
    empty = observed(one, sources={MAP: None}, bindings={"demo": binding})
    assert work_of(decide(empty, NOW)) == {"demo": ([], [])}


def test_a_source_that_left_the_spec_loses_record_and_owner() -> None:
    one = a_set(MAP)
    binding = a_binding(one, a_cluster(), recorded(), recorded(SECRET))
    sources = {MAP: a_source(owner=one), SECRET: a_source(SECRET, owner=one, type_=SOURCE_TYPE)}
    decision = decide(observed(one, bindings={"demo": binding}, sources=sources), NOW)
    assert work_of(decision) == {"demo": ([], ["two"])}
    released = decision.effects[1]
    assert isinstance(released, Patch)
    assert (released.resource.kind, released.patch) == ("Secret", {"metadata": {"ownerReferences": []}})


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (a_cluster(initialized=False), "1 of 1 cluster: demo: the control plane of the Cluster is not initialized"),
        (a_cluster(paused=True), "1 of 1 cluster: demo: the Cluster is paused"),
    ],
)
def test_a_cluster_waits(cluster: Object, message: str) -> None:
    decision = decide(observed(clusters=(cluster,)), NOW)
    assert work_of(decision) == {}
    assert applied_condition(decision) == ("False", "NotApplied", message)
    assert decision.requeue_after == WAIT_RETRY
    assert "observedGeneration" not in (decision.status or {})


def test_a_waiting_cluster_with_everything_recorded_is_no_problem() -> None:
    one, cluster = a_set(), a_cluster(initialized=False)
    decision = decide(observed(one, clusters=(cluster,), bindings={"demo": a_binding(one, cluster, recorded())}), NOW)
    assert applied_condition(decision)[0] == "True"


@pytest.mark.parametrize(
    ("ref", "source", "reason", "message"),
    [
        (MAP, None, "InternalError", "ConfigMap one does not exist"),
        (SECRET, a_source(SECRET, type_="Opaque"), "WrongSecretType", f"{SECRET} does not have the type {SOURCE_TYPE}"),
        (
            SECRET,
            a_source(SECRET, type_=SOURCE_TYPE) | {"data": {"key": "?"}},
            "InternalError",
            "Secret two: a value is not base64",
        ),
    ],
)  # fmt: skip
def test_an_unusable_source_is_reported(ref: SourceRef, source: Object | None, reason: str, message: str) -> None:
    decision = decide(observed(a_set(ref), sources={ref: source}), NOW)
    assert applied_condition(decision) == ("False", reason, message)
    assert decision.requeue_after == FAILED_RETRY


def test_an_invalid_selector_is_reported() -> None:
    decision = decide(observed(clusters=(), selector_problem="bad key"), NOW)
    assert applied_condition(decision) == ("False", "InternalError", "bad key")


def test_no_selected_cluster_is_no_problem() -> None:
    decision = decide(observed(clusters=()), NOW)
    assert (applied_condition(decision), decision.effects) == (("True", "Applied", "no Cluster is selected"), ())


@pytest.mark.parametrize(
    ("applied", "reason", "message", "retry"),
    [
        (Applied(), "Applied", "", None),
        (Applied(("one: refused",)), "NotApplied", "1 of 1 cluster: demo: one: refused", FAILED_RETRY),
        (Applied(("down",), is_connected=False), "InternalError", "1 of 1 cluster: demo: down", WAIT_RETRY),
        (Applied(tried=False), "NotApplied", "1 of 1 cluster: demo: not tried yet", WAIT_RETRY),
    ],
)  # fmt: skip
def test_results_become_the_condition(applied: Applied, reason: str, message: str, retry: float) -> None:
    seen = observed()
    (effect,) = [effect for effect in decide(seen, NOW).effects if isinstance(effect, ApplySources)]
    decision = decide(seen, NOW, Results([(effect, {"demo": applied})]))
    assert applied_condition(decision)[1:] == (reason, message)
    assert decision.requeue_after == retry


def test_a_deleted_set_leaves_bindings_and_sources() -> None:
    gone = a_set(MAP, SECRET, deletionTimestamp="2026-11-26T00:00:00Z")
    shared_binding = a_binding(gone, a_cluster(), recorded())
    shared_binding["spec"]["bindings"].append({"clusterResourceSetName": "other", "resources": [recorded()]})
    bindings = {
        "demo": shared_binding,
        "deselected": a_binding(gone, a_cluster("deselected"), recorded()),
        "foreign": a_binding(a_set(name="other"), a_cluster("foreign"), recorded()),
    }
    sources = {MAP: a_source(owner=gone), SECRET: a_source(SECRET)}
    decision = decide(observed(gone, clusters=(), bindings=bindings, sources=sources), NOW)
    left, deleted, released, finalizer = decision.effects
    assert isinstance(left, Patch)
    assert left.obj is shared_binding
    assert isinstance(deleted, Delete)
    assert deleted.obj is bindings["deselected"]
    assert isinstance(released, Patch)
    assert released.patch == {"metadata": {"ownerReferences": []}}
    assert isinstance(finalizer, RemoveFinalizer)
    assert finalizer.finalizer == FINALIZER
    assert decision.message == "the objects stay in the workload clusters"


def test_a_set_of_another_uid_does_not_own_the_source() -> None:
    one = a_set()
    earlier = replace(observed(one), sources={MAP: a_source(owner=a_set(uid="uid-earlier"))})
    (owning,) = [effect for effect in decide(earlier, NOW).effects if isinstance(effect, OwnSource)]
    assert owner_reference(one) in owning.patch["metadata"]["ownerReferences"]
