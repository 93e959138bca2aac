"""Tables of decisions about Clusters: observed inputs and the expected effects and status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from functions.cluster.decide import decide
from functions.cluster.deletion import DeleteSecrets, waits_for_reference
from functions.cluster.observed import Observed
from functions.cluster.status import FINALIZER, phase
from shared.api.conditions import get_condition
from shared.api.core import CORE_ANNOTATION, core_state
from shared.api.resources import (
    CLUSTER,
    KIND_CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
)
from shared.effects import Delete, Patch, RemoveFinalizer, would_change
from shared.kube import Object, Resource
from shared.references import NOT_ALLOWED, NOT_SERVED, LookupResult
from shared.runtime import Decision
from tests.support.objects import written_by_core

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOPOLOGY = {"topology": {"classRef": {"name": "c"}}}
NO_TOPOLOGY: Object = {"infrastructureRef": {"apiGroup": "g", "kind": "FakeInfraCluster", "name": "demo"}}


def cluster(spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
            "finalizers": [FINALIZER],
            **metadata,
        },
        "spec": NO_TOPOLOGY if spec is None else spec,
        "status": status or {},
    }


def infra(spec: Object | None = None, status: Object | None = None, **metadata: Any) -> LookupResult:
    obj: Object = {
        "apiVersion": "g/v1",
        "kind": "FakeInfraCluster",
        "metadata": {"name": "demo", "namespace": "default", "uid": "i", "resourceVersion": "1", **metadata},
        "spec": spec or {},
        "status": status or {},
    }
    return LookupResult("present", "FakeInfraCluster", obj, KIND_CLUSTER)


OWNER: Object = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": "u"}
OTHER: Object = {**OWNER, "name": "other", "uid": "x"}


def owned(**metadata: Any) -> LookupResult:
    return infra(ownerReferences=[OWNER], labels={"cluster.x-k8s.io/cluster-name": "demo"}, **metadata)


ABSENT = LookupResult("absent", "FakeInfraCluster")
FAILED = LookupResult("failed", "FakeInfraCluster", error="boom")
UNUSED = LookupResult("unreferenced")
PROVISIONED: Object = {"initialization": {"infrastructureProvisioned": True}}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def condition(decision: Decision, type_: str) -> tuple[str, str, str]:
    found = get_condition((decision.status or {}).get("conditions"), type_)
    assert found is not None
    return found["status"], found["reason"], found.get("message", "")


@pytest.mark.parametrize(
    ("obj", "provisioned", "endpoint", "word"),
    [
        (cluster({}), False, False, "Pending"),
        (cluster(), False, False, "Provisioning"),
        (cluster(), True, False, "Provisioning"),
        (cluster(), True, True, "Provisioned"),
        (cluster({"controlPlaneRef": {"kind": "K", "name": "n"}}), True, True, "Provisioned"),
        (cluster(**DELETED), True, True, "Deleting"),
    ],
)
def test_phase_follows_references_and_readiness(obj: Object, provisioned: bool, endpoint: bool, word: str) -> None:
    assert phase(obj, provisioned=provisioned, endpoint=endpoint) == word


HOST = {"host": "example.com", "port": 6443}


@pytest.mark.parametrize(
    ("obj", "found", "provisioned", "endpoint", "requeue_after"),
    [
        pytest.param(cluster({}), UNUSED, True, None, None, id="no ref"),
        pytest.param(cluster(), ABSENT, None, None, 30.0, id="missing, never provisioned"),
        pytest.param(cluster(status=PROVISIONED), ABSENT, True, None, 30.0, id="missing, was provisioned"),
        pytest.param(cluster(), FAILED, None, None, 30.0, id="read failed"),
        pytest.param(cluster(), infra(status={"ready": True}), True, None, None, id="ready, no endpoint"),
        pytest.param(
            cluster(), infra({"controlPlaneEndpoint": HOST}, {"ready": True}), True, HOST, None, id="v1beta1 contract"
        ),
        pytest.param(
            cluster(),
            infra({"controlPlaneEndpoint": HOST}, {"initialization": {"provisioned": True}}),
            True,
            HOST,
            None,
            id="v1beta2 contract",
        ),
        pytest.param(
            cluster({**NO_TOPOLOGY, "controlPlaneEndpoint": {"host": "1.2.3.4", "port": 8443}}, PROVISIONED),
            infra({"controlPlaneEndpoint": HOST}, {"ready": False}),
            True,
            None,
            None,
            id="facts do not flip back",
        ),
        pytest.param(
            cluster(),
            infra({"controlPlaneEndpoint": HOST}, {"ready": True}, **DELETED),
            None,
            None,
            None,
            id="infrastructure being deleted",
        ),
        pytest.param(cluster(), infra(), None, None, None, id="not provisioned yet"),
    ],
)
def test_infrastructure_facts_and_endpoint_are_copied(
    obj: Object, found: LookupResult, provisioned: bool | None, endpoint: Object | None, requeue_after: float | None
) -> None:
    decision = decide(Observed(obj, found), NOW)
    assert ((decision.status or {})["initialization"] or {}).get("infrastructureProvisioned") is provisioned
    specs = [e.patch["spec"] for e in decision.effects if isinstance(e, Patch) and "spec" in e.patch]
    assert specs == ([{"controlPlaneEndpoint": endpoint}] if endpoint else [])
    assert decision.requeue_after == requeue_after


@pytest.mark.parametrize("ready", [False, True])
def test_object_of_a_kind_that_no_source_watches_is_read_again_until_it_is_provisioned(ready: bool) -> None:
    found = infra(status={"ready": ready})
    assert found.resource is not None
    decision = decide(Observed(cluster(), found, unwatched=(found.resource,)), NOW)
    assert decision.requeue_after == (None if ready else 30.0)


@pytest.mark.parametrize("topology", [False, True])
def test_infrastructure_gets_owner_reference_and_label(topology: bool) -> None:
    spec = {**NO_TOPOLOGY, "topology": {"classRef": {"name": "c"}}} if topology else NO_TOPOLOGY
    obj = cluster(spec)
    [patch] = decide(Observed(obj, infra()), NOW).effects
    assert isinstance(patch, Patch)
    metadata = patch.patch["metadata"]
    assert metadata["labels"] == {"cluster.x-k8s.io/cluster-name": "demo"}
    [reference] = metadata["ownerReferences"]
    assert reference == {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "name": "demo",
        "uid": "u",
        "controller": topology,
    }
    assert not decide(Observed(obj, infra(**metadata)), NOW).effects


@pytest.mark.parametrize("controller", [None, True, False])
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_fields_that_others_set_on_the_owner_reference_are_kept(controller: bool | None, version: str) -> None:
    reference = {**OWNER, "apiVersion": f"cluster.x-k8s.io/{version}", "blockOwnerDeletion": True}
    reference |= {} if controller is None else {"controller": controller}
    found = infra(ownerReferences=[reference], labels={"cluster.x-k8s.io/cluster-name": "demo"})
    assert not decide(Observed(cluster(), found), NOW).effects


def test_owner_reference_to_an_earlier_cluster_of_the_same_name_is_replaced() -> None:
    [patch] = decide(Observed(cluster(), infra(ownerReferences=[{**OWNER, "uid": "old"}])), NOW).effects
    assert isinstance(patch, Patch)
    assert [one["uid"] for one in patch.patch["metadata"]["ownerReferences"]] == ["u"]


def test_other_owners_are_kept() -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"}
    [patch] = decide(Observed(cluster(), infra(ownerReferences=[other])), NOW).effects
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["ownerReferences"][0] == other


@pytest.mark.parametrize(
    ("before", "reported", "after"),
    [
        (None, None, []),
        ([{"name": "a"}], None, []),
        (None, {"b": {"controlPlane": True}, "a": {}}, ["a", "b"]),
        ([{"name": "old"}], {"new": {"controlPlane": True}}, ["new"]),
    ],
)
def test_failure_domains_are_mirrored(before: Any, reported: Any, after: list[str]) -> None:
    obj = cluster(status={"failureDomains": before} if before else {})
    found = infra(status={"ready": True, **({"failureDomains": reported} if reported else {})})
    status = decide(Observed(obj, found), NOW).status or {}
    assert [domain["name"] for domain in status["failureDomains"] or []] == after


def test_empty_fields_are_omitted_from_status() -> None:
    status = decide(Observed(cluster(), infra(status={"ready": False})), NOW).status or {}
    assert status["initialization"] is None
    status = decide(Observed(cluster(), infra(status={"ready": True})), NOW).status or {}
    assert status["failureDomains"] is None


def test_invalid_failure_domains_are_an_error() -> None:
    decision = decide(Observed(cluster(), infra(status={"ready": True, "failureDomains": "x"})), NOW)
    assert "FakeInfraCluster demo" in decision.message
    assert "observedGeneration" not in (decision.status or {})


CONTROLLED: Object = {"controlPlaneRef": {"apiGroup": "g", "kind": "FakeControlPlane", "name": "demo"}}
INITIALIZED: Object = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}


def control_plane(status: Object | None = None) -> LookupResult:
    return LookupResult("present", "FakeControlPlane", owned_by_demo(status), MACHINE)


def owned_by_demo(status: Object | None) -> Object:
    return {**(owned().object or {}), "kind": "FakeControlPlane", "status": status or {}}


NO_CONTROL_PLANE = LookupResult("absent", "FakeControlPlane")
BROKEN = LookupResult("failed", "FakeControlPlane", error="boom")


@pytest.mark.parametrize(
    ("obj", "found", "available", "initialized", "waits"),
    [
        (
            cluster(CONTROLLED),
            NO_CONTROL_PLANE,
            ("False", "ObjectDoesNotExist", "FakeControlPlane does not exist"),
            ("Unknown", "ObjectDoesNotExist", "FakeControlPlane does not exist"),
            True,
        ),
        (
            cluster(CONTROLLED, INITIALIZED),
            NO_CONTROL_PLANE,
            ("False", "ObjectDeleted", "FakeControlPlane has been deleted while the cluster still exists"),
            ("True", "Initialized", ""),
            True,
        ),
        (cluster(CONTROLLED), BROKEN, ("Unknown", "InternalError", "boom"), ("Unknown", "InternalError", "boom"), True),
        (
            cluster(CONTROLLED),
            control_plane(),
            ("False", "NotAvailable", "FakeControlPlane status.initialization.controlPlaneInitialized is false"),
            ("False", "NotInitialized", "Control plane not yet initialized"),
            False,
        ),
        (
            cluster(CONTROLLED),
            control_plane({"initialized": True}),
            ("True", "Available", ""),
            ("True", "Initialized", ""),
            False,
        ),
        (
            cluster(CONTROLLED, INITIALIZED),
            control_plane({"conditions": [{"type": "Available", "status": "False", "reason": "Down", "message": "m"}]}),
            ("False", "Down", "m"),
            ("True", "Initialized", ""),
            False,
        ),
    ],
)
def test_control_plane_conditions_mirror_the_object(
    obj: Object, found: LookupResult, available: tuple[str, str, str], initialized: tuple[str, str, str], waits: bool
) -> None:
    decision = decide(Observed(obj, control_plane=found), NOW)
    assert condition(decision, "ControlPlaneAvailable") == available
    assert condition(decision, "ControlPlaneInitialized") == initialized
    assert decision.requeue_after == (30.0 if waits else None)
    warned = {event.reason for event in decision.kubernetes_events if event.type == "Warning"}
    assert warned == ({available[1]} if found.object is None else set())


def test_kind_that_is_not_served_is_reported_and_blocks_the_deletion() -> None:
    found = LookupResult("failed", "FakeInfraCluster", error="FakeInfraCluster.g is not served", reason=NOT_SERVED)
    alive = decide(Observed(cluster(), found), NOW)
    assert condition(alive, "InfrastructureReady") == ("Unknown", "KindNotServed", "FakeInfraCluster.g is not served")
    assert [event.reason for event in alive.kubernetes_events if event.type == "Warning"] == ["KindNotServed"]
    assert alive.requeue_after == 30.0
    going = decide(Observed(cluster(**DELETED), found), NOW)
    assert not going.effects
    status, reason, message = condition(going, "Deleting")
    assert (status, reason) == ("True", "KindNotServed")
    assert "once the kind is served, or its CRD is deleted" in message


@pytest.mark.parametrize(("spec", "waits"), [(TOPOLOGY, True), ({**TOPOLOGY, **NO_TOPOLOGY}, False)])
def test_control_plane_object_is_not_expected_once_the_infrastructure_is_referenced(spec: Object, waits: bool) -> None:
    found = infra(status={"ready": True}) if not waits else UNUSED
    _, reason, _ = condition(decide(Observed(cluster(spec), found), NOW), "ControlPlaneAvailable")
    assert reason == ("ObjectDoesNotExist" if waits else "NotUsed")


@pytest.mark.parametrize(("seconds", "seen", "overdue"), [(30, False, False), (60, False, True), (3600, True, False)])
def test_missing_topology_controller_is_reported_after_its_timeout(seconds: int, seen: bool, overdue: bool) -> None:
    created = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"conditions": [{"type": "TopologyReconciled", "status": "False"}] if seen else []}
    decision = decide(Observed(cluster(TOPOLOGY, status, creationTimestamp=created)), NOW)
    reported = condition(decision, "InfrastructureReady")
    assert reported[:2] == ("False", "ObjectDoesNotExist")
    assert ("no topology controller has reconciled this Cluster" in reported[2]) is overdue
    assert ("Warning" in {event.type for event in decision.kubernetes_events}) is overdue
    assert decision.requeue_after == (30.0 if seconds == 30 else None)
    assert "infrastructureProvisioned" not in ((decision.status or {})["initialization"] or {})


@pytest.mark.parametrize(
    ("obj", "found", "expected"),
    [
        (
            cluster(TOPOLOGY),
            UNUSED,
            ("False", "ObjectDoesNotExist", "Waiting for cluster topology to be reconciled"),
        ),
        (cluster({}), UNUSED, ("True", "NotUsed", "")),
        (
            cluster(),
            infra(status={"conditions": [{"type": "Ready", "status": "False", "reason": "SomeReason"}]}),
            ("False", "SomeReason", ""),
        ),
        (cluster(), infra(status={"conditions": [{"type": "Ready", "status": "True"}]}), ("True", "Ready", "")),
        (
            cluster(),
            infra(),
            ("False", "NotReady", "FakeInfraCluster status.initialization.provisioned is false"),
        ),
        (cluster(status=PROVISIONED), infra(), ("True", "Ready", "")),
        (
            cluster(),
            infra(status={"conditions": [{"type": "Ready"}]}),
            (
                "Unknown",
                "InvalidConditionReported",
                "failed to convert status.conditions from FakeInfraCluster to []metav1.Condition: "
                "status must be set for the Ready condition",
            ),
        ),
        (cluster(), FAILED, ("Unknown", "InternalError", "boom")),
        (
            cluster(status=PROVISIONED, **DELETED),
            ABSENT,
            ("False", "ObjectDeleted", "FakeInfraCluster has been deleted"),
        ),
        (cluster(**DELETED), ABSENT, ("False", "ObjectDoesNotExist", "FakeInfraCluster does not exist")),
        (
            cluster(status=PROVISIONED),
            ABSENT,
            ("False", "ObjectDeleted", "FakeInfraCluster has been deleted while the cluster still exists"),
        ),
        (cluster(), ABSENT, ("False", "ObjectDoesNotExist", "FakeInfraCluster does not exist")),
    ],
)
def test_infrastructure_ready_mirrors_the_object(
    obj: Object, found: LookupResult, expected: tuple[str, str, str]
) -> None:
    assert condition(decide(Observed(obj, found), NOW), "InfrastructureReady") == expected


@pytest.mark.parametrize(
    ("spec", "annotations", "message"),
    [
        ({"paused": True}, {}, "Cluster spec.paused is set to true"),
        ({}, {"cluster.x-k8s.io/paused": ""}, "Cluster has the cluster.x-k8s.io/paused annotation"),
        (
            {"paused": True},
            {"cluster.x-k8s.io/paused": "x"},
            "Cluster spec.paused is set to true, Cluster has the cluster.x-k8s.io/paused annotation",
        ),
    ],
)
def test_paused_cluster_is_not_reconciled(spec: Object, annotations: Object, message: str) -> None:
    obj = cluster({**NO_TOPOLOGY, **spec}, annotations=annotations, **DELETED)
    decision = decide(Observed(obj, infra()), NOW)
    assert not decision.effects
    assert condition(decision, "Paused") == ("True", "Paused", message)


def test_missing_finalizer_is_added() -> None:
    effect = decide(Observed(cluster({}, finalizers=[])), NOW).effects[0]
    assert isinstance(effect, Patch)
    assert effect.patch == {"metadata": {"finalizers": [FINALIZER]}}


def test_no_finalizer_is_added_during_deletion() -> None:
    assert not decide(Observed(cluster({}, finalizers=["other"], **DELETED)), NOW).effects


# -- deletion --------------------------------------------------------------------------------------------------


def machine(name: str, resource: Resource, *, owned: bool = True, control_plane: bool = False) -> Object:
    labels = {"cluster.x-k8s.io/control-plane": ""} if control_plane else {}
    references = [{"kind": "Cluster", "uid": "u", "name": "demo"}] if owned else []
    metadata = {"name": name, "uid": name, "labels": labels, "ownerReferences": references}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def descendants(*, owned: bool = True) -> dict[Resource, tuple[Object, ...]]:
    workers = [machine(f"w{n}", MACHINE, owned=owned) for n in range(8, 0, -1)]
    first = [machine(f"cp{n}", MACHINE, owned=owned, control_plane=True) for n in (2, 1, 3)]
    return {
        MACHINE_POOL: tuple(machine(f"mp{n}", MACHINE_POOL, owned=owned) for n in (1, 2)),
        MACHINE_DEPLOYMENT: tuple(machine(f"md{n}", MACHINE_DEPLOYMENT, owned=owned) for n in (1, 2)),
        MACHINE_SET: tuple(machine(f"ms{n}", MACHINE_SET, owned=owned) for n in (1, 2)),
        MACHINE: (*workers, *first),
    }


def test_deletion_starts_with_descendants() -> None:
    decision = decide(Observed(cluster(**DELETED), infra(), descendants=descendants()), NOW)
    status, reason, message = condition(decision, "Deleting")
    assert (status, reason, decision.requeue_after) == ("True", "WaitingForWorkersDeletion", 5.0)
    assert sorted(message.splitlines()) == [
        "* Control plane Machines: cp1, cp2, cp3",
        "* MachineDeployments: md1, md2",
        "* MachinePools: mp1, mp2",
        "* MachineSets: ms1, ms2",
        "* Worker Machines: w1, w2, w3, w4, w5, ... (3 more)",
    ]
    kinds = [e.resource.kind for e in decision.effects if isinstance(e, Delete)]
    assert len(kinds) == 17
    assert kinds == sorted(kinds, key=["MachinePool", "MachineDeployment", "MachineSet", "Machine"].index)


def test_control_plane_machines_are_left_to_the_control_plane_object() -> None:
    control_plane = LookupResult("present", "FakeControlPlane", infra().object, KIND_CLUSTER)
    decision = decide(Observed(cluster(**DELETED), infra(), control_plane, descendants()), NOW)
    assert len([e for e in decision.effects if isinstance(e, Delete)]) == 14
    assert "Control plane Machines" not in condition(decision, "Deleting")[2]


def test_deletion_waits_for_descendants_of_others_without_deleting_them() -> None:
    decision = decide(Observed(cluster(**DELETED), infra(), descendants=descendants(owned=False)), NOW)
    assert not decision.effects
    assert condition(decision, "Deleting")[1] == "WaitingForWorkersDeletion"


def test_control_plane_is_deleted_before_infrastructure() -> None:
    control_plane = LookupResult("present", "FakeControlPlane", owned().object, MACHINE)
    both = decide(Observed(cluster(**DELETED), owned(), control_plane), NOW)
    assert [e.resource for e in both.effects if isinstance(e, Delete)] == [MACHINE]
    assert condition(both, "Deleting")[1:] == (
        "WaitingForControlPlaneDeletion",
        "Waiting for FakeControlPlane to be deleted",
    )
    rest = decide(Observed(cluster(**DELETED), owned()), NOW)
    assert [e.resource for e in rest.effects if isinstance(e, Delete)] == [KIND_CLUSTER]
    going = decide(Observed(cluster(**DELETED), owned(**DELETED)), NOW)
    assert not going.effects
    assert condition(going, "Deleting")[1] == "WaitingForInfrastructureDeletion"


@pytest.mark.parametrize(
    ("reason", "generation", "found", "core", "waits"),
    [
        ("WaitingForInfrastructureDeletion", 2, owned(**DELETED), "none", True),
        ("WaitingForInfrastructureDeletion", 1, owned(**DELETED), "none", False),
        ("WaitingForInfrastructureDeletion", 2, owned(**DELETED), "live", False),
        ("WaitingForInfrastructureDeletion", 2, owned(), "none", False),
        ("WaitingForInfrastructureDeletion", 2, infra(ownerReferences=[OTHER], **DELETED), "none", False),
        ("WaitingForInfrastructureDeletion", 2, ABSENT, "none", False),
        ("WaitingForInfrastructureDeletion", 2, FAILED, "none", False),
        ("WaitingForControlPlaneDeletion", 2, owned(**DELETED), "none", False),
        ("WaitingForWorkersDeletion", 2, owned(**DELETED), "none", False),
    ],
)
def test_what_is_deleted_first_is_not_read_again_while_only_a_reference_is_awaited(
    reason: str, generation: int, found: LookupResult, core: Literal["none", "live"], waits: bool
) -> None:
    entry = {"type": "Deleting", "status": "True", "reason": reason, "observedGeneration": generation}
    obj = cluster(status={"conditions": [entry]}, generation=2, **DELETED)
    assert waits_for_reference(Observed(obj, found, core=core)) is waits


def test_infrastructure_is_adopted_before_it_is_deleted() -> None:
    decision = decide(Observed(cluster(**DELETED), infra()), NOW)
    [patch] = decision.effects
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert condition(decision, "Deleting")[1] == "WaitingForInfrastructureDeletion"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(
            infra(ownerReferences=[OTHER]),
            "belongs to Cluster other",
            id="of another Cluster",
        ),
        pytest.param(
            LookupResult("failed", "ClusterRole", error="the kind is cluster-scoped", reason=NOT_ALLOWED),
            "cluster-scoped",
            id="cluster-scoped",
        ),
        pytest.param(
            LookupResult("present", "Cluster", {**cluster(), "metadata": {"name": "other", "uid": "x"}}, CLUSTER),
            "its kind does not belong to a provider",
            id="a Cluster",
        ),
        pytest.param(
            LookupResult("present", "Cluster", cluster(), CLUSTER),
            "its kind does not belong to a provider",
            id="itself",
        ),
    ],
)
@pytest.mark.parametrize("role", ["infrastructure", "control_plane"])
def test_reference_to_a_foreign_object_is_refused_and_the_object_untouched(
    found: LookupResult, words: str, role: str
) -> None:
    def observed(obj: Object) -> Observed:
        return Observed(obj, found) if role == "infrastructure" else Observed(obj, control_plane=found)

    alive = decide(observed(cluster()), NOW)
    assert not alive.effects
    about = "InfrastructureReady" if role == "infrastructure" else "ControlPlaneAvailable"
    status, reason, message = condition(alive, about)
    assert (status, reason) == ("False", "ReferenceNotAllowed")
    assert words in message
    assert [event.type for event in alive.kubernetes_events if event.reason == reason] == ["Warning"]
    going = decide(observed(cluster(**DELETED)), NOW)
    assert [type(effect) for effect in going.effects] == [DeleteSecrets, RemoveFinalizer]


def test_secrets_are_deleted_before_the_finalizer_is_removed() -> None:
    first, last = decide(Observed(cluster(**DELETED), ABSENT), NOW).effects
    assert isinstance(first, DeleteSecrets)
    assert isinstance(last, RemoveFinalizer)
    assert last.resource == CLUSTER


@pytest.mark.parametrize(
    ("control_plane", "found", "failure"), [(UNUSED, FAILED, ""), (FAILED, infra(), ""), (UNUSED, infra(), "no list")]
)
def test_nothing_is_deleted_while_an_input_is_unreadable(
    control_plane: LookupResult, found: LookupResult, failure: str
) -> None:
    decision = decide(Observed(cluster(**DELETED), found, control_plane, failure=failure), NOW)
    assert not decision.effects
    assert condition(decision, "Deleting")[1] == "InternalError"


def test_second_reconciliation_changes_nothing() -> None:
    found = infra({"controlPlaneEndpoint": HOST}, {"ready": True})
    obj = cluster({**NO_TOPOLOGY, "controlPlaneEndpoint": HOST})
    assert found.object is not None
    [adopt] = decide(Observed(obj, found), NOW).effects
    assert isinstance(adopt, Patch)
    found.object["metadata"] |= adopt.patch["metadata"]
    written = decide(Observed(obj, found), NOW).status or {}
    obj["status"] = {name: value for name, value in written.items() if value is not None}
    again = decide(Observed(obj, found), datetime(2026, 2, 2, tzinfo=UTC))
    assert not again.effects
    assert not again.kubernetes_events
    assert not would_change(obj["status"], again.status)


# -- beside Cluster API core ---------------------------------------------------------------------------------------


def of_core(generation: int, **metadata: Any) -> Object:
    entry = {"type": "TopologyReconciled", "status": "True", "observedGeneration": generation}
    return cluster({**NO_TOPOLOGY, **TOPOLOGY}, {"conditions": [entry]}, generation=2, **metadata)


def at(hour: int) -> str:
    return f"2026-01-01T0{hour}:00:00Z"


def only_message(hour: int) -> Object:
    """Returns the entry of a core that changed no more of the condition: a patch owns only what it changes."""
    entry = written_by_core(time=at(hour))
    entry["fieldsV1"]["f:status"]["f:conditions"] = {'k:{"type":"Available"}': {"f:message": {}}}
    return entry


TAKEN_OVER = {**written_by_core(time=at(1)), "manager": "capi-functions"}
KUBECONFIG = {**written_by_core("KubeconfigAvailable", at(3)), "manager": "capi-functions-kubeconfig"}


@pytest.mark.parametrize(
    ("managers", "state"),
    [
        pytest.param([written_by_core()], "live", id="core wrote the condition last"),
        pytest.param([{**written_by_core(), "manager": "capi-functions"}], "none", id="`cluster` did"),
        pytest.param([written_by_core("InfrastructureReady")], "none", id="core wrote another condition"),
        pytest.param([TAKEN_OVER, only_message(2)], "live", id="core is back: it wrote a message after `cluster`"),
        pytest.param([TAKEN_OVER, only_message(1)], "none", id="the message is from before the takeover"),
        pytest.param([TAKEN_OVER, written_by_core("InfrastructureReady", at(2))], "none", id="back for another one"),
        pytest.param([TAKEN_OVER, only_message(2), KUBECONFIG], "live", id="`kubeconfig` wrote after core came back"),
        pytest.param([TAKEN_OVER, KUBECONFIG], "none", id="`kubeconfig` wrote, not core"),
        pytest.param([only_message(2)], "none", id="nobody wrote the generation"),
        pytest.param([], "none", id="nobody knows"),
    ],
)
def test_condition_that_both_write_belongs_to_its_last_field_manager(managers: list[Object], state: str) -> None:
    entry = {"type": "Available", "status": "True", "observedGeneration": 1}
    assert core_state(cluster(status={"conditions": [entry]}, managedFields=managers), NOW) == state


def taken_over(generation: int, **metadata: Any) -> Object:
    """A Cluster that core observed at generation 1, with the shared condition at `generation`."""
    obj = of_core(1, **metadata)
    entry = {"type": "InfrastructureReady", "status": "True", "observedGeneration": generation}
    obj["status"]["conditions"].append(entry)
    return obj


def written(manager: str, minute: int, *fields: str) -> Object:
    return {"manager": manager, "time": f"2026-01-01T00:{minute:02}:00Z", "fieldsV1": {name: {} for name in fields}}


@pytest.mark.parametrize(
    ("obj", "minutes", "state"),
    [
        (cluster(), 0, "none"),
        (of_core(2), 0, "live"),
        (of_core(1, managedFields=[written("core", 0, "f:status")]), 9, "late"),
        (of_core(1, managedFields=[written("core", 0, "f:status")]), 10, "gone"),
        (of_core(1, managedFields=[written("core", 0, "f:status"), written("kubectl", 5, "f:spec")]), 14, "late"),
        (of_core(1, managedFields=[written("core", 0, "f:status"), written("kubectl", 5, "f:spec")]), 15, "gone"),
        (of_core(1, managedFields=[written("kubectl", 5, "f:metadata", "f:spec")]), 0, "late"),  # our clock is slow
        (of_core(1, managedFields=[written("kubectl", 0, "f:metadata")]), 1, "gone"),
        (of_core(1, managedFields=[written("capi-functions", 0, "f:spec")]), 1, "gone"),
        (of_core(1, managedFields=[{"manager": "core", "time": "soon"}, {}]), 1, "gone"),
        (taken_over(1, managedFields=[written("kubectl", 0, "f:spec")]), 0, "late"),
        (taken_over(2, managedFields=[written("kubectl", 0, "f:spec")]), 0, "none"),
        (taken_over(2, **DELETED), 0, "none"),
        (of_core(2, **DELETED), 60, "live"),
        (of_core(1, **DELETED), 9, "late"),
        (of_core(1, **DELETED), 10, "gone"),
        (of_core(2, annotations={CORE_ANNOTATION: "ignore"}), 0, "none"),
        (of_core(2, annotations={CORE_ANNOTATION: "respect"}), 0, "live"),
    ],
)
def test_core_state_follows_observed_generations_and_time(obj: Object, minutes: int, state: str) -> None:
    assert core_state(obj, NOW + timedelta(minutes=minutes)) == state


@pytest.mark.parametrize(
    ("obj", "minutes", "state"),
    [
        (cluster(managedFields=[written("kubectl", 0, "f:spec")]), 9, "late"),
        (cluster(managedFields=[written("kubectl", 0, "f:spec")]), 10, "none"),  # this core does not watch the Cluster
        (cluster(managedFields=[]), 0, "none"),
        (cluster(status={"observedGeneration": 1}, managedFields=[written("kubectl", 0, "f:spec")]), 0, "none"),
        (cluster(managedFields=[written("kubectl", 0, "f:spec")], annotations={CORE_ANNOTATION: "ignore"}), 0, "none"),
        (cluster(managedFields=[written("kubectl", 0, "f:spec")], **DELETED), 0, "none"),
        (of_core(2), 0, "live"),
    ],
)
def test_new_cluster_is_left_to_a_running_core_for_ten_minutes(obj: Object, minutes: int, state: str) -> None:
    now = NOW + timedelta(minutes=minutes)
    assert core_state(obj, now, is_running=True) == state
    assert core_state(obj, now) == ("live" if state == "live" else "none")


def test_unobserved_change_is_left_to_core_until_its_timeout() -> None:
    decision = decide(Observed(of_core(1), infra(), core="late"), NOW)
    assert (decision.effects, decision.status, decision.kubernetes_events, decision.requeue_after) == (
        (),
        None,
        (),
        30.0,
    )


def test_takeover_from_core_records_one_event() -> None:
    obj = of_core(1)
    first = decide(Observed(obj, infra(), core="gone"), NOW)
    assert first.effects
    assert [event.reason for event in first.kubernetes_events].count("ClusterAPIGone") == 1
    obj["status"] |= {name: value for name, value in (first.status or {}).items() if value is not None}
    obj["metadata"] |= {"generation": 3, "managedFields": [written("kubectl", 0, "f:spec")]}
    assert core_state(obj, NOW) == "none", "later changes do not wait for core again"


def test_cluster_of_core_is_reported_once_at_a_look() -> None:
    decision = decide(Observed(of_core(2), infra(), core="live", look=True), NOW)
    assert (decision.effects, decision.status) == ((), None)
    [event] = decision.kubernetes_events
    assert (event.reason, event.type, event.once) == ("ManagedByClusterAPI", "Normal", True)


def test_cluster_managed_by_core_is_not_reconciled() -> None:
    decision = decide(Observed(of_core(2), infra(), core="live"), NOW)
    assert (decision.effects, decision.status, decision.requeue_after) == ((), None, None)


@pytest.mark.parametrize("state", ["live", "late"])
def test_nothing_is_deleted_before_core_allows_it(state: Literal["live", "late"]) -> None:
    obj = of_core(2 if state == "live" else 1, **DELETED)
    decision = decide(Observed(obj, owned(), descendants=descendants(), core=state), NOW)
    assert not decision.effects
    assert decision.requeue_after == 5.0
    if state == "live":
        assert decision.status is None, "the status is core's to write"
    else:
        reported = condition(decision, "Deleting")
        assert reported[1] == "WaitingForClusterAPI"
        assert "until 2026-01-01T00:10:00Z" in reported[2]


def test_descendants_are_deleted_once_core_allows_it() -> None:
    obj = of_core(2, annotations={"runtime.cluster.x-k8s.io/ok-to-delete": ""}, **DELETED)
    decision = decide(Observed(obj, owned(), descendants=descendants(), core="live"), NOW)
    assert len(decision.effects) == 17
    assert decision.status is None
