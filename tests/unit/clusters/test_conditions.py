"""Tables of the conditions and counters of Clusters: what was observed, and what the status says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster import probe
from functions.cluster.decide import decide
from functions.cluster.descendants import Descendants
from functions.cluster.lookups import watched_kinds
from functions.cluster.merge import aggregate
from functions.cluster.observed import Observed
from functions.cluster.probe import Probe, due
from functions.cluster.recorded import recorded, shows_machines, shows_no_machines
from functions.cluster.status import FINALIZER
from functions.cluster.triggers import TRIGGERS, relevant_in_cluster
from shared.api.conditions import get_condition, rfc3339
from shared.api.resources import MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.api.summary import Reasons
from shared.effects import Patch
from shared.event import Change, change_event
from shared.kube import Object, Resource, dig
from shared.references import LookupResult
from shared.runtime import Decision

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD = rfc3339(NOW - timedelta(hours=1))
HOST: Object = {"controlPlaneEndpoint": {"host": "h", "port": 6443}}
TO_INFRA: Object = {"infrastructureRef": {"apiGroup": "g", "kind": "FakeInfraCluster", "name": "demo"}}
TO_CONTROL_PLANE: Object = {"controlPlaneRef": {"apiGroup": "g", "kind": "FakeControlPlane", "name": "demo"}}
TOPOLOGY: Object = {"topology": {"classRef": {"name": "c"}}}
DELETED: Object = {"deletionTimestamp": OLD}
UNUSED = LookupResult("unreferenced")
OWNED = {"ownerReferences": [{"kind": "Cluster", "uid": "u", "name": "demo"}]}
FAILED = "the list failed"


def cluster(spec: Object | None = None, *conditions: Object, metadata: Object | None = None, **status: Any) -> Object:
    own = {"name": "demo", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1, **(metadata or {})}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"finalizers": [FINALIZER], **own},
        "spec": spec or {},
        "status": {"conditions": list(conditions), **status},
    }


def entry(type_: str, status: str, reason: str = "R", message: str = "", **fields: Any) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message, **fields}


def found(kind: str, *conditions: object, spec: Object | None = None, **status: Any) -> LookupResult:
    labels = {"cluster.x-k8s.io/cluster-name": "demo"}
    metadata = {"name": "demo", "namespace": "ns", "uid": kind, "resourceVersion": "1", "labels": labels, **OWNED}
    status = {"conditions": list(conditions), **status}
    obj: Object = {"apiVersion": "g/v1", "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status}
    return LookupResult("present", kind, obj, Resource("g", "v1", kind, f"{kind.lower()}s"))


def member(
    kind: Resource,
    name: str,
    *conditions: object,
    spec: Object | None = None,
    labels: Object | None = None,
    **rest: Any,
) -> Object:
    """Returns a Machine or an owner of Machines; `rest` is its status, or its metadata as far as it is part of that."""
    metadata = {"name": name, "uid": name, "labels": labels or {}, "creationTimestamp": OLD}
    metadata |= {field: rest.pop(field) for field in ("ownerReferences", "creationTimestamp") if field in rest}
    status = {"conditions": list(conditions), **rest}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec or {},
        "status": status,
    }


CP = {"cluster.x-k8s.io/control-plane": ""}


def of_kinds(*members: Object) -> Descendants:
    kinds = {kind.kind: kind for kind in (MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET)}
    result: dict[Resource, tuple[Object, ...]] = {}
    for one in members:
        kind = kinds[one["kind"]]
        result[kind] = (*result.get(kind, ()), one)
    return result


def condition(decision: Decision, type_: str) -> tuple[str, str, str]:
    one = get_condition((decision.status or {}).get("conditions"), type_)
    assert one is not None
    return one["status"], one["reason"], one.get("message", "")


# -- the control plane -------------------------------------------------------------------------------------------

ABSENT = LookupResult("absent", "FakeControlPlane")
BROKEN = LookupResult("failed", "FakeControlPlane", error="boom")
INITIALIZED = {"initialization": {"controlPlaneInitialized": True}}
AWAITED = "Waiting for cluster topology to be reconciled"
WITH_REF = TO_CONTROL_PLANE
MALFORMED_LIST = "failed to convert status.conditions from FakeControlPlane to []metav1.Condition"
MALFORMED = f"{MALFORMED_LIST}: status must be set for the Available condition"


@pytest.mark.parametrize(
    ("obj", "control_plane", "expected"),
    [
        (cluster(TOPOLOGY), UNUSED, ("False", "ObjectDoesNotExist", AWAITED)),
        (cluster(TOPOLOGY, metadata=DELETED), UNUSED, ("False", "ObjectDoesNotExist", "")),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", entry("Available", "False", "SomeReason")),
            ("False", "SomeReason", ""),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", {"type": "Available", "status": "True"}),
            ("True", "Available", ""),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane"),
            ("False", "NotAvailable", "FakeControlPlane status.initialization.controlPlaneInitialized is false"),
        ),
        (cluster(WITH_REF, **INITIALIZED), found("FakeControlPlane"), ("True", "Available", "")),
        *(
            (
                cluster(WITH_REF),
                found("FakeControlPlane", entry("Available", "True"), invalid),
                ("Unknown", "InvalidConditionReported", f"{MALFORMED_LIST}: {problem}"),
            )
            for invalid, problem in (
                (entry("Other", "Bogus"), "status for the Other condition must be one of True, False, Unknown"),
                ({"type": "Other"}, "status must be set for the Other condition"),
                ({"status": "True"}, "type must be set for all conditions"),
            )
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", {"type": "Available"}),
            ("Unknown", "InvalidConditionReported", MALFORMED),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", entry("Available", "False", "not yet", "etcd is down")),
            ("False", "NoReasonReported", "not yet: etcd is down"),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", entry("Available", "False", "R" * 257)),
            ("False", "NoReasonReported", "R" * 257),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", "none", {"type": "Available", "status": "Unknown", "reason": 7, "message": 5}),
            ("Unknown", "NoReasonReported", "7: 5"),
        ),
        (
            cluster(WITH_REF),
            found("FakeControlPlane", {"type": "Available", "status": "False", "reason": None, "message": {"a": 1}}),
            ("False", "NoReasonReported", "{'a': 1}"),
        ),
        (cluster(WITH_REF), BROKEN, ("Unknown", "InternalError", "boom")),
        (
            cluster(WITH_REF, metadata=DELETED, **INITIALIZED),
            ABSENT,
            ("False", "ObjectDeleted", "FakeControlPlane has been deleted"),
        ),
        (
            cluster(WITH_REF, metadata=DELETED),
            ABSENT,
            ("False", "ObjectDoesNotExist", "FakeControlPlane does not exist"),
        ),
        (
            cluster(WITH_REF, **INITIALIZED),
            ABSENT,
            ("False", "ObjectDeleted", "FakeControlPlane has been deleted while the cluster still exists"),
        ),
        (cluster(WITH_REF), ABSENT, ("False", "ObjectDoesNotExist", "FakeControlPlane does not exist")),
        (cluster(), UNUSED, ("True", "NotUsed", "")),
    ],
)
def test_control_plane_available(obj: Object, control_plane: LookupResult, expected: tuple[str, str, str]) -> None:
    assert condition(decide(Observed(obj, control_plane=control_plane), NOW), "ControlPlaneAvailable") == expected


NODE = "Waiting for the first control plane machine to have status.nodeRef set"
WITHOUT_NODE = of_kinds(member(MACHINE, "cp", labels=CP), member(MACHINE, "w", nodeRef={"name": "w"}))
WITH_NODE = of_kinds(member(MACHINE, "cp", labels=CP, nodeRef={"name": "cp"}))


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (Observed(cluster(TOPOLOGY)), ("Unknown", "ObjectDoesNotExist", AWAITED)),
        (Observed(cluster(WITH_REF), control_plane=BROKEN), ("Unknown", "InternalError", "boom")),
        (
            Observed(cluster(WITH_REF), control_plane=ABSENT),
            ("Unknown", "ObjectDoesNotExist", "FakeControlPlane does not exist"),
        ),
        (
            Observed(cluster(WITH_REF), control_plane=found("FakeControlPlane")),
            ("False", "NotInitialized", "Control plane not yet initialized"),
        ),
        (
            Observed(cluster(WITH_REF), control_plane=found("FakeControlPlane", initialized=True)),
            ("True", "Initialized", ""),
        ),
        (
            Observed(cluster(WITH_REF), control_plane=found("FakeControlPlane", **INITIALIZED)),
            ("True", "Initialized", ""),
        ),
        (
            Observed(
                cluster(WITH_REF, entry("ControlPlaneInitialized", "True")),
                control_plane=found("FakeControlPlane", initialized=False),
            ),
            ("True", "Initialized", ""),
        ),
        (Observed(cluster(), descendants=WITHOUT_NODE), ("False", "NotInitialized", NODE)),
        (Observed(cluster(), descendants=WITH_NODE), ("True", "Initialized", "")),
        (Observed(cluster()), ("False", "NotInitialized", "Waiting for the API server of the cluster to answer")),
        (Observed(cluster(), probe=Probe("succeeded")), ("True", "Initialized", "")),
    ],
)
def test_control_plane_initialized(observed: Observed, expected: tuple[str, str, str]) -> None:
    decision = decide(observed, NOW)
    assert condition(decision, "ControlPlaneInitialized") == expected
    initialized = dig(decision.status, "initialization.controlPlaneInitialized")
    assert (initialized is True) is (expected[0] == "True")


def test_control_plane_of_machines_alone_is_available_once_one_has_a_node() -> None:
    expected = [("False", "NotAvailable", NODE), ("True", "Available", "")]
    for descendants, one in zip((WITHOUT_NODE, WITH_NODE), expected, strict=True):
        assert condition(decide(Observed(cluster(), descendants=descendants), NOW), "ControlPlaneAvailable") == one


# -- the remote connection ---------------------------------------------------------------------------------------

PROBED = "RemoteConnectionProbe"
MINTED = entry("KubeconfigAvailable", "True")
PROVISIONED = {"initialization": {"infrastructureProvisioned": True}}
NOT_YET, FAILS = "Remote connection not established yet", "Remote connection probe failed"


def attempts(number: int, ago: float, since: float) -> str:
    last, first = (rfc3339(NOW - timedelta(seconds=seconds)) for seconds in (ago, since))
    return f" (attempt {number} at {last}, failing since {first}: refused)"


def probed(status: str, message: str) -> Object:
    reason = "ProbeSucceeded" if status == "True" else "ProbeFailed"
    return cluster(HOST, MINTED, entry(PROBED, status, reason, message, observedGeneration=1), **PROVISIONED)


@pytest.mark.parametrize(
    ("obj", "attempt", "expected", "requeue_after"),
    [
        pytest.param(cluster(HOST), None, ("False", NOT_YET), None, id="nothing to connect to"),
        pytest.param(cluster(HOST, MINTED, **PROVISIONED), None, ("False", NOT_YET), 10.0, id="not tried"),
        pytest.param(
            cluster(HOST, MINTED, **PROVISIONED), Probe("skipped"), ("False", NOT_YET), 10.0, id="no free connection"
        ),
        pytest.param(probed("True", ""), None, ("True", ""), None, id="not tried again"),
        pytest.param(probed("False", NOT_YET), Probe("succeeded"), ("True", ""), None, id="first success"),
        pytest.param(
            cluster(HOST, MINTED, **PROVISIONED),
            Probe("failed", "refused"),
            ("False", NOT_YET + attempts(1, 0, 0)),
            10.0,
            id="first attempt",
        ),
        pytest.param(
            probed("False", NOT_YET + attempts(3, 40, 70)),
            Probe("failed", "refused"),
            ("False", NOT_YET + attempts(4, 0, 70)),
            80.0,
            id="4 attempts, never a success",
        ),
        pytest.param(
            probed("False", NOT_YET + attempts(4, 80, 150)),
            Probe("failed", "refused"),
            ("False", FAILS + attempts(5, 0, 150)),
            160.0,
            id="5 attempts",
        ),
        pytest.param(
            probed("True", ""),
            Probe("failed", "refused"),
            ("True", "Remote connection probe fails" + attempts(1, 0, 0)),
            10.0,
            id="first failure",
        ),
        pytest.param(
            probed("True", "Remote connection probe fails" + attempts(3, 40, 50)),
            Probe("failed", "refused"),
            ("True", "Remote connection probe fails" + attempts(4, 0, 50)),
            80.0,
            id="fails for less than the grace period",
        ),
        pytest.param(
            probed("True", "Remote connection probe fails" + attempts(3, 40, 51)),
            Probe("failed", "refused"),
            ("False", FAILS + attempts(4, 0, 51)),
            80.0,
            id="fails for longer",
        ),
        pytest.param(
            probed("False", FAILS + attempts(30, 600, 9000)),
            Probe("failed", "refused"),
            ("False", FAILS + attempts(31, 0, 9000)),
            600.0,
            id="fails for hours",
        ),
        pytest.param(
            probed("False", FAILS + attempts(5, 100, 9000)),
            None,
            ("False", FAILS + attempts(5, 100, 9000)),
            60.0,
            id="next attempt is not due",
        ),
        pytest.param(
            probed("False", FAILS + attempts(5, 100, 9000)), Probe("succeeded"), ("True", ""), None, id="recovered"
        ),
    ],
)
def test_remote_connection_probe(
    obj: Object, attempt: Probe | None, expected: tuple[str, str], requeue_after: float | None
) -> None:
    decision = decide(Observed(obj, probe=attempt), NOW)
    status, reason, message = condition(decision, PROBED)
    assert (status, message) == expected
    assert reason == ("ProbeSucceeded" if expected[0] == "True" else "ProbeFailed") or attempt is None
    assert decide(Observed(obj, probe=attempt, recorded=True), NOW).requeue_after != 0.0 or attempt is None
    assert decision.requeue_after == requeue_after


@pytest.mark.parametrize(("change", "requeue_after"), [("add", None), ("update", 60.0)])
def test_an_update_that_ends_the_wait_for_the_next_attempt_begins_it_again(
    change: Change, requeue_after: float | None
) -> None:
    obj = probed("False", FAILS + attempts(5, 100, 9000))
    settled = {**obj, "status": {**obj["status"], **(decide(Observed(obj), NOW).status or {})}}
    known = recorded(settled, change_event(settled, change, source="/test"), "none")
    assert known is not None
    assert decide(known, NOW).requeue_after == requeue_after


def test_failures_and_recovery_are_reported_once() -> None:
    reported = []
    for obj, attempt in (
        (probed("False", NOT_YET + attempts(3, 40, 70)), Probe("failed", "refused")),
        (probed("False", NOT_YET + attempts(4, 80, 150)), Probe("failed", "refused")),
        (probed("True", ""), Probe("failed", "refused")),
        (probed("True", "Remote connection probe fails" + attempts(3, 40, 70)), Probe("failed", "refused")),
        (cluster(HOST, MINTED, entry(PROBED, "False", "ProbeFailed", FAILS + attempts(5, 0, 0))), Probe("failed", "x")),
        (probed("False", FAILS + attempts(5, 100, 9000)), Probe("succeeded")),
        (probed("False", NOT_YET), Probe("succeeded")),
    ):
        found_events = decide(Observed(obj, probe=attempt), NOW).kubernetes_events
        reported.append([(one.type, one.reason) for one in found_events if one.condition == PROBED])
    warned = [("Warning", "ProbeFailed")]
    assert reported == [[], warned, [], warned, [], [("Normal", "ProbeSucceeded")], []]


@pytest.mark.parametrize(
    ("obj", "again", "seconds"),
    [
        pytest.param(cluster(HOST, MINTED, **PROVISIONED), False, 0.0, id="never tried"),
        pytest.param(cluster(HOST, **PROVISIONED), False, None, id="no kubeconfig"),
        pytest.param(cluster({}, MINTED, **PROVISIONED), False, None, id="no endpoint"),
        pytest.param(cluster(HOST, MINTED), False, None, id="not provisioned"),
        pytest.param(cluster(HOST, MINTED, metadata=DELETED, **PROVISIONED), True, None, id="being deleted"),
        pytest.param(cluster(HOST | WITH_REF, **PROVISIONED), False, None, id="control plane not initialized"),
        pytest.param(
            cluster(
                HOST | WITH_REF, initialization={"infrastructureProvisioned": True, "controlPlaneInitialized": True}
            ),
            False,
            0.0,
            id="control plane initialized",
        ),
        pytest.param(probed("True", ""), False, None, id="succeeded"),
        pytest.param(probed("True", ""), True, 0.0, id="succeeded, at a resync"),
        pytest.param(probed("False", FAILS + attempts(5, 100, 9000)), True, 60.0, id="failed, at a resync"),
        pytest.param(probed("False", FAILS + attempts(5, 161, 9000)), False, 0.0, id="failed long ago"),
        pytest.param(probed("False", "(attempt 3 at noon, failing since dawn: x)"), False, 0.0, id="not a time"),
    ],
)
def test_next_attempt_is_due(obj: Object, again: bool, seconds: float | None) -> None:
    assert due(obj, NOW, again=again) == seconds


def test_error_of_an_untrusted_server_is_cut() -> None:
    decision = decide(Observed(cluster(HOST, MINTED, **PROVISIONED), probe=Probe("failed", "x" * 5000)), NOW)
    assert len(condition(decision, PROBED)[2]) < 400
    assert probe.failures(cluster(HOST, *(decision.status or {})["conditions"])) is not None


# -- aggregates --------------------------------------------------------------------------------------------------

TYPES = (
    "WorkersAvailable",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
)


def test_conditions_about_machines_are_good_without_any() -> None:
    decision = decide(Observed(cluster()), NOW)
    good = [condition(decision, type_) for type_ in TYPES]
    assert good == [
        ("True", "NoWorkers", ""),
        *[("True", "NoReplicas", "")] * 4,
        *[("False", f"Not{type_}", "") for type_ in TYPES[5:]],
    ]


def test_conditions_about_machines_that_cannot_be_listed_are_unknown() -> None:
    decision = decide(Observed(cluster(), descendants=None, failure=FAILED), NOW)
    assert {condition(decision, type_) for type_ in TYPES} == {("Unknown", "InternalError", FAILED)}
    assert decision.requeue_after == 30.0
    assert "workers" not in (decision.status or {}), "counters stay as they are"


def test_rollouts_are_unknown_while_the_control_plane_cannot_be_read() -> None:
    decision = decide(Observed(cluster(WITH_REF), control_plane=BROKEN), NOW)
    unknown = [type_ for type_ in TYPES if condition(decision, type_)[:2] == ("Unknown", "InternalError")]
    assert unknown == ["RollingOut", "ScalingUp", "ScalingDown"]


def machine(name: str, *conditions: Object, **rest: Any) -> Object:
    return member(MACHINE, name, *conditions, **rest)


UNHEALTHY = entry("HealthCheckSucceeded", "False")
STALE = entry("UpToDate", "False", "NotUpToDate", "This is not up-to-date message")
NEW = rfc3339(NOW - timedelta(seconds=5))


@pytest.mark.parametrize(
    ("type_", "observed", "expected"),
    [
        pytest.param(
            "WorkersAvailable",
            Observed(cluster(), descendants=of_kinds(member(MACHINE_DEPLOYMENT, "md1"))),
            ("Unknown", "AvailableUnknown", "* MachineDeployment md1: Condition Available not yet reported"),
            id="silent",
        ),
        pytest.param(
            "WorkersAvailable",
            Observed(
                cluster(),
                descendants=of_kinds(
                    member(MACHINE_DEPLOYMENT, "md1", 3, {"type": "Available", "status": "False", "message": [5]})
                ),
            ),
            ("False", "NotAvailable", "* MachineDeployment md1: [5]"),
            id="message that is no text",
        ),
        pytest.param(
            "WorkersAvailable",
            Observed(cluster(), descendants=of_kinds(member(MACHINE_POOL, "mp1"))),
            ("True", "NoWorkers", ""),
            id="silent MachinePool",
        ),
        pytest.param(
            "WorkersAvailable",
            Observed(
                cluster(),
                descendants=of_kinds(
                    member(MACHINE_POOL, "mp1", entry("Available", "False", "Few", "3 available replicas")),
                    member(MACHINE_DEPLOYMENT, "md1", entry("Available", "False", "Few", "2 available replicas")),
                ),
            ),
            (
                "False",
                "NotAvailable",
                "* MachineDeployment md1: 2 available replicas\n* MachinePool mp1: 3 available replicas",
            ),
            id="both bad",
        ),
        pytest.param(
            "WorkersAvailable",
            Observed(
                cluster(), descendants=of_kinds(member(MACHINE_DEPLOYMENT, "md1", entry("Available", "True", "Yes")))
            ),
            ("True", "Available", ""),
            id="good",
        ),
        pytest.param(
            "WorkerMachinesReady",
            Observed(
                cluster(),
                descendants=of_kinds(
                    machine("machine-1", entry("Ready", "True")),
                    machine("machine-2", entry("Ready", "False", "NotReady", "* HealthCheckSucceeded: Some message")),
                    machine("machine-3", entry("Ready", "Unknown", "Unknown", "* Some unknown message")),
                    machine("machine-4", entry("Ready", "False", "NotReady", "* Deleting: Machine is being deleted")),
                    machine("cp", labels=CP),
                    machine("pooled", labels={"cluster.x-k8s.io/pool-name": "p"}),
                ),
            ),
            (
                "False",
                "NotReady",
                "* Machine machine-2:\n  * HealthCheckSucceeded: Some message\n"
                "* Machine machine-4:\n  * Deleting: Machine is being deleted\n"
                "* Machine machine-3:\n  * Some unknown message",
            ),
            id="issues first",
        ),
        pytest.param(
            "ControlPlaneMachinesReady",
            Observed(
                cluster(),
                descendants=of_kinds(
                    machine("cp", entry("Ready", "True"), labels=CP), machine("w", entry("Ready", "False"))
                ),
            ),
            ("True", "Ready", ""),
            id="of the control plane only",
        ),
        pytest.param(
            "WorkerMachinesUpToDate",
            Observed(
                cluster(),
                descendants=of_kinds(
                    machine("up-to-date-machine-1", entry("UpToDate", "True")),
                    machine("not-up-to-date-machine-1", STALE),
                    machine("not-up-to-date-machine-2", STALE),
                    machine("no-condition-machine-1"),
                    machine("no-condition-machine-2"),
                    machine("no-condition-machine-3", creationTimestamp=NEW),
                ),
            ),
            (
                "False",
                "NotUpToDate",
                "* Machines not-up-to-date-machine-1, not-up-to-date-machine-2: This is not up-to-date message\n"
                "* Machines no-condition-machine-1, no-condition-machine-2: Condition UpToDate not yet reported",
            ),
            id="new Machines may be silent",
        ),
        pytest.param(
            "ControlPlaneMachinesUpToDate",
            Observed(cluster(), descendants=of_kinds(machine("cp", labels=CP, creationTimestamp=NEW))),
            ("True", "NoReplicas", ""),
            id="only a new one",
        ),
        pytest.param(
            "ScalingUp",
            Observed(
                cluster(WITH_REF),
                control_plane=found("FakeControlPlane", entry("ScalingUp", "True", "Up", "cp scales")),
                descendants=of_kinds(
                    member(MACHINE_DEPLOYMENT, "md1", entry("ScalingUp", "True", "Up", "md scales")),
                    member(MACHINE_POOL, "mp1", entry("ScalingUp", "True", "Up", "mp scales")),
                    member(MACHINE_SET, "ms1", entry("ScalingUp", "True", "Up", "ms scales"), **OWNED),
                    member(MACHINE_SET, "ms2", entry("ScalingUp", "True", "Up", "ms scales")),
                ),
            ),
            (
                "True",
                "ScalingUp",
                "* FakeControlPlane demo: cp scales\n* MachineDeployment md1: md scales\n* MachinePool mp1: mp scales\n"
                "And 1 MachineSet with other issues",
            ),
            id="at most three messages",
        ),
        pytest.param(
            "ScalingDown",
            Observed(
                cluster(WITH_REF),
                control_plane=found("FakeControlPlane"),
                descendants=of_kinds(member(MACHINE_SET, "ms2", entry("ScalingDown", "True"))),
            ),
            ("False", "NotScalingDown", ""),
            id="silent control plane, MachineSet of a MachineDeployment",
        ),
        pytest.param(
            "RollingOut",
            Observed(
                cluster(WITH_REF),
                control_plane=found("FakeControlPlane", entry("RollingOut", "Unknown", "Why", "who knows")),
                descendants=of_kinds(member(MACHINE_DEPLOYMENT, "md1", entry("RollingOut", "False"))),
            ),
            ("Unknown", "RollingOutUnknown", "* FakeControlPlane demo: who knows"),
            id="unknown",
        ),
        pytest.param(
            "Remediating",
            Observed(cluster(), descendants=of_kinds(machine("m1"), machine("m2", UNHEALTHY))),
            ("False", "NotRemediating", "Machine m2 is not healthy (not to be remediated)"),
            id="one unhealthy",
        ),
        pytest.param(
            "Remediating",
            Observed(cluster(), descendants=of_kinds(*(machine(f"m{number}", UNHEALTHY) for number in (2, 1)))),
            ("False", "NotRemediating", "Machines m1, m2 are not healthy (not to be remediated)"),
            id="two unhealthy",
        ),
        pytest.param(
            "Remediating",
            Observed(cluster(), descendants=of_kinds(*(machine(f"m{number}", UNHEALTHY) for number in range(5)))),
            ("False", "NotRemediating", "Machines m0, m1, m2, ... (2 more) are not healthy (not to be remediated)"),
            id="many unhealthy",
        ),
        pytest.param(
            "Remediating",
            Observed(cluster(), descendants=of_kinds(*(machine(f"m{number:03}", UNHEALTHY) for number in range(500)))),
            (
                "False",
                "NotRemediating",
                "Machines m000, m001, m002, ... (497 more) are not healthy (not to be remediated)",
            ),
            id="500 unhealthy",
        ),
        pytest.param(
            "Remediating",
            Observed(
                cluster(),
                descendants=of_kinds(
                    machine("m1", UNHEALTHY),
                    machine("m3", UNHEALTHY, entry("OwnerRemediated", "False", "Deleting", "Machine is deleting")),
                ),
            ),
            ("True", "Remediating", "* Machine m3: Machine is deleting"),
            id="remediated",
        ),
        pytest.param(
            "WorkerMachinesReady",
            Observed(
                cluster(),
                descendants=of_kinds(
                    {
                        **machine("old"),
                        "apiVersion": "cluster.x-k8s.io/v1beta1",
                        "status": {
                            "conditions": [{"type": "Ready", "status": "False"}],
                            "v1beta2": {"conditions": [entry("Ready", "True")]},
                        },
                    }
                ),
            ),
            ("True", "Ready", ""),
            id="in the shape of v1beta1",
        ),
    ],
)
def test_conditions_about_machines(type_: str, observed: Observed, expected: tuple[str, str, str]) -> None:
    assert condition(decide(observed, NOW), type_) == expected


REASONS = Reasons("Good", "Bad", "Unknown")


def reports(obj: Object) -> Sequence[Object]:
    listed: Sequence[Object] = obj["status"]["conditions"]
    return listed


@pytest.mark.parametrize(
    ("objects", "negative", "expected"),
    [
        pytest.param(
            [member(MACHINE_POOL, "mp1"), member(MACHINE_DEPLOYMENT, "md1")],
            False,
            (
                "Unknown",
                "Unknown",
                "* MachineDeployment md1: Condition X not yet reported\n"
                "* MachinePool mp1: Condition X not yet reported",
            ),
            id="kinds by name",
        ),
        pytest.param(
            [
                machine("a", entry("X", "False", "R", "one")),
                *(machine(name, entry("X", "False", "R", "many")) for name in "dcbe"),
                machine("z", entry("X", "Unknown", "R", "cp"), labels=CP),
                machine("y", entry("X", "False", "R", "rest")),
                machine("x", entry("X", "Unknown", "R", "unknown")),
                machine("w", entry("X", "Unknown", "R", "more unknown")),
            ],
            False,
            (
                "False",
                "Bad",
                "* Machine z: cp\n* Machines b, c, d, ... (1 more): many\n* Machine a: one\n"
                "And 1 Machine with other issues\nAnd 2 Machines with status unknown",
            ),
            id="control plane, issues, number of objects",
        ),
        pytest.param(
            [machine("w", entry("X", "False", "R", "m")), machine("z", entry("X", "False", "R", "m"), labels=CP)],
            False,
            ("False", "Bad", "* Machines z, w: m"),
            id="names of the control plane first",
        ),
        pytest.param(
            [machine("a", entry("X", "True", "R", "fine")), machine("b", entry("X", "True", "R"))],
            False,
            ("True", "Good", "* Machine a: fine"),
            id="information",
        ),
        pytest.param(
            [machine("a", entry("X", "True", "R", "fine")), machine("b", entry("X", "False", "R", "bad"))],
            False,
            ("False", "Bad", "* Machine b: bad"),
            id="no information beside an issue",
        ),
        pytest.param(
            [machine("a", entry("X", "True", "R", "same")), machine("b", entry("X", "False", "R", "same"))],
            False,
            ("False", "Bad", "* Machine b: same"),
            id="the same message of a good object",
        ),
        pytest.param(
            [machine("a", entry("X", "False", "R", "fine")), machine("b", entry("X", "True", "R", "bad"))],
            True,
            ("True", "Bad", "* Machine b: bad"),
            id="negative",
        ),
        pytest.param(
            [machine("a", entry("X", "False", "R"))], True, ("False", "Good", ""), id="negative, and nothing to tell"
        ),
        pytest.param(
            [machine("a", entry("X", "False", "R", "first\n* second"))],
            False,
            ("False", "Bad", "* Machine a:\n  * first\n    * second"),
            id="lines with and without bullets",
        ),
        pytest.param(
            [machine("a", entry("X", "False", "TheReason"))],
            False,
            ("False", "Bad", "* Machine a: TheReason"),
            id="no message",
        ),
    ],
)
def test_aggregate_of_a_condition(objects: list[Object], negative: bool, expected: tuple[str, str, str]) -> None:
    assert aggregate(objects, "X", REASONS, reports, negative=negative) == expected


# -- Available ---------------------------------------------------------------------------------------------------

GOOD = Observed(
    cluster(HOST | TO_INFRA | WITH_REF, **INITIALIZED),
    found("FakeInfraCluster", entry("Ready", "True"), ready=True),
    found("FakeControlPlane", entry("Available", "True")),
    probe=Probe("succeeded"),
)


def good(*conditions: Object, metadata: Object | None = None, **spec: Any) -> Observed:
    return replace(
        GOOD, cluster=cluster(HOST | TO_INFRA | WITH_REF | spec, *conditions, metadata=metadata, **INITIALIZED)
    )


GONE = replace(
    good(metadata=DELETED),
    infrastructure=LookupResult("absent", "FakeInfraCluster"),
    control_plane=ABSENT,
    descendants=of_kinds(machine("w1"), machine("w2")),
)
GATES = [{"conditionType": "Fast", "polarity": "Positive"}, {"conditionType": "Hot", "polarity": "Negative"}]


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(GOOD, ("True", "Available", ""), id="all is well"),
        pytest.param(
            Observed(cluster(TOPOLOGY, metadata={"creationTimestamp": rfc3339(NOW)})),
            (
                "False",
                "NotAvailable",
                f"* RemoteConnectionProbe: {NOT_YET}\n* InfrastructureReady: {AWAITED}\n"
                f"* ControlPlaneAvailable: {AWAITED}\n* TopologyReconciled: Condition not yet reported",
            ),
            id="waiting for the topology",
        ),
        pytest.param(
            good(**TOPOLOGY), ("True", "Available", ""), id="references set by hand need no topology controller"
        ),
        pytest.param(
            good(entry("TopologyReconciled", "False", "ClusterUpgrading", "* a\n* b"), **TOPOLOGY),
            ("True", "Available", "* TopologyReconciled:\n  * a\n  * b"),
            id="a rollout of the topology is information",
        ),
        pytest.param(
            replace(
                good(entry("TopologyReconciled", "False", "ClusterUpgrading", "m"), **TOPOLOGY),
                infrastructure=found("FakeInfraCluster", entry("Ready", "False", "Down", "down"), ready=True),
            ),
            ("False", "NotAvailable", "* InfrastructureReady: down"),
            id="information is dropped beside an issue",
        ),
        pytest.param(
            good(entry("TopologyReconciled", "False", "ReconcileFailed", "broken"), **TOPOLOGY),
            ("False", "NotAvailable", "* TopologyReconciled: broken"),
            id="the topology is broken",
        ),
        pytest.param(
            good(entry("Fast", "False", "R", "slow"), entry("Hot", "True", "R", "hot"), availabilityGates=GATES),
            ("False", "NotAvailable", "* Fast: slow\n* Hot: hot"),
            id="gates are closed",
        ),
        pytest.param(
            good(entry("Fast", "True"), entry("Hot", "False"), availabilityGates=GATES),
            ("True", "Available", ""),
            id="gates are open",
        ),
        pytest.param(
            good(availabilityGates=GATES[:1]),
            ("Unknown", "AvailableUnknown", "* Fast: Condition not yet reported"),
            id="gate without condition",
        ),
        pytest.param(
            replace(good(entry("Fast", "False", "R", "slow"), **TOPOLOGY), class_gates=tuple(GATES[:1])),
            ("False", "NotAvailable", "* Fast: slow"),
            id="gates of the class",
        ),
        pytest.param(
            replace(good(**TOPOLOGY, availabilityGates=[]), class_gates=tuple(GATES)),
            ("True", "Available", ""),
            id="own gates replace those of the class",
        ),
        pytest.param(
            GONE,
            ("False", "NotAvailable", "* Deleting:\n  * Worker Machines: w1, w2"),
            id="what the deletion removes is information",
        ),
    ],
)
def test_available_summarizes_other_conditions(observed: Observed, expected: tuple[str, str, str]) -> None:
    status, reason, message = condition(decide(observed, NOW), "Available")
    assert (status, reason, message) == expected or (
        observed is GONE and (status, reason) == expected[:2] and message.startswith(expected[2])
    )


@pytest.mark.parametrize(
    ("spec", "others", "is_reconciled"),
    [
        pytest.param(TOPOLOGY, [], True, id="nobody reports a condition"),
        pytest.param(TOPOLOGY, [entry("Fast", "False")], False, id="it may be that of a gate of the class"),
        pytest.param({**TOPOLOGY, "availabilityGates": []}, [entry("Fast", "False")], True, id="own gates"),
        pytest.param({}, [entry("Fast", "False")], True, id="no class"),
        pytest.param(TOPOLOGY, [entry("KubeconfigAvailable", "False")], True, id="a condition of another function"),
        pytest.param(TOPOLOGY, [entry("TopologyReconciled", "True")], True, id="summarized anyway"),
        pytest.param(TOPOLOGY, [entry("Ready", "True")], True, id="a condition of v1beta1"),
    ],
)
def test_conditions_of_others_matter_while_the_gates_of_the_class_are_not_read(
    spec: Object, others: list[Object], is_reconciled: bool
) -> None:
    obj = good(*others, **spec).cluster or {}
    status = {**obj["status"], **(decide(replace(GOOD, cluster=obj), NOW).status or {})}
    settled: Object = {**obj, "status": {name: value for name, value in status.items() if value is not None}}
    event = change_event(settled, "update", source="/test")
    assert TRIGGERS.is_reconciled is not None
    assert TRIGGERS.is_reconciled(settled, event, NOW) == is_reconciled


@pytest.mark.parametrize(
    ("type_", "spec", "starts"),
    [
        pytest.param("Fast", TOPOLOGY, True, id="it may be that of a gate of the class"),
        pytest.param("Fast", {"availabilityGates": GATES}, True, id="that of an own gate"),
        pytest.param("Slow", TOPOLOGY | {"availabilityGates": GATES}, False, id="that of no own gate"),
        pytest.param("Fast", {}, False, id="neither gates nor class"),
        pytest.param("TopologyReconciled", TOPOLOGY | {"availabilityGates": []}, True, id="TopologyReconciled"),
        pytest.param("ScalingUp", TOPOLOGY, False, id="a condition of the function"),
        pytest.param("Ready", TOPOLOGY, False, id="a condition of the function in v1beta1"),
    ],
)
def test_conditions_of_other_programs_start_the_function_if_available_summarizes_them(
    type_: str, spec: Object, starts: bool
) -> None:
    before, after = (good(entry(type_, status), **spec).cluster or {} for status in ("True", "False"))
    assert (relevant_in_cluster(before) != relevant_in_cluster(after)) is starts


def test_conditions_are_in_order_and_keep_their_places() -> None:
    types = [one["type"] for one in (decide(good(entry("Zebra", "True")), NOW).status or {})["conditions"]]
    assert types == [
        *("Available", "RemoteConnectionProbe", "InfrastructureReady", "ControlPlaneInitialized"),
        *("ControlPlaneAvailable", "WorkersAvailable", "RollingOut", "Remediating", "ScalingDown", "ScalingUp"),
        *("ControlPlaneMachinesReady", "WorkerMachinesReady"),
        *("ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate", "Zebra", "Paused", "Deleting"),
    ]
    obj = good().cluster or {}
    obj["status"] = {**(decide(GOOD, NOW).status or {})}
    obj["status"]["conditions"].append(entry("Alien", "True", observedGeneration=1))
    again = decide(replace(GOOD, cluster=obj, probe=None), NOW).status or {}
    assert again["conditions"][-1]["type"] == "Alien", "a condition of another function causes no write"


# -- kinds that no event source watches ---------------------------------------------------------------------------

WATCHED = Resource("g", "v1", "FakeControlPlane", "fakecontrolplanes")
UNWATCHED = Resource("g", "v1", "FakeInfraCluster", "fakeinfraclusters")


@pytest.mark.parametrize(
    ("orphan", "look", "unwatched", "reported"),
    [
        pytest.param(True, False, (UNWATCHED,), True, id="adopted"),
        pytest.param(False, False, (UNWATCHED,), False, id="adopted before"),
        pytest.param(False, True, (UNWATCHED,), True, id="adopted before, at a look"),
        pytest.param(True, True, (), False, id="watched"),
        pytest.param(True, False, (WATCHED,), False, id="the other object was adopted"),
    ],
)
def test_kind_that_no_event_source_watches_is_reported_rarely(
    orphan: bool, look: bool, unwatched: tuple[Resource, ...], reported: bool
) -> None:
    infrastructure = found("FakeInfraCluster", entry("Ready", "True"), ready=True)
    if orphan:
        del (infrastructure.object or {})["metadata"]["ownerReferences"]
    observed = replace(GOOD, infrastructure=infrastructure, unwatched=unwatched, look=look)
    events = [one for one in decide(observed, NOW).kubernetes_events if one.reason == "KindNotWatched"]
    assert [one.once for one in events] == [True] * reported
    assert all("FakeInfraCluster (g)" in one.message for one in events)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([], set()),
        ([{"apiVersion": "v1", "kind": "Secret"}], {("", "Secret")}),
        ([{"apiVersion": "g/v1", "kind": "A"}, {"apiVersion": "h/v2", "kind": "A"}], {("g", "A"), ("h", "A")}),
    ],
)
def test_event_sources_watch_the_kinds_that_they_name(resources: list[Object], expected: set[tuple[str, str]]) -> None:
    assert watched_kinds([{"spec": {"resources": [one]}} for one in resources] + [{}]) == expected


# -- counters ----------------------------------------------------------------------------------------------------


def counts(number: int, **more: Any) -> Object:
    names = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
    return {**dict.fromkeys(names, number), **more}


def counted(number: int, versions: Any = None) -> Object:
    return {**counts(number), "desiredReplicas": number, "versions": versions}


V1 = [{"version": "v1.36.0", "replicas": 3}]
READY_MACHINE = [entry(type_, "True") for type_ in ("Ready", "Available", "UpToDate")]


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(Observed(cluster()), None, id="no Machines"),
        pytest.param(Observed(cluster(WITH_REF), control_plane=ABSENT), None, id="absent"),
        pytest.param(
            Observed(cluster(WITH_REF), control_plane=found("FakeControlPlane")), None, id="reports no replicas"
        ),
        pytest.param(
            Observed(
                cluster(WITH_REF),
                control_plane=found("FakeControlPlane", spec={"replicas": 3}, versions=V1, **counts(3)),
            ),
            counted(3, V1),
            id="v1beta2",
        ),
        pytest.param(
            Observed(
                cluster(WITH_REF),
                control_plane=found(
                    "FakeControlPlane", spec={"replicas": 3}, readyReplicas=2, unavailableReplicas=1, updatedReplicas=1
                ),
            ),
            {**counts(2), "desiredReplicas": 3, "replicas": None, "upToDateReplicas": 1, "versions": None},
            id="v1beta1",
        ),
        pytest.param(
            Observed(
                cluster(WITH_REF),
                control_plane=found("FakeControlPlane", spec={"replicas": 1}, unavailableReplicas=3),
            ),
            {
                **dict.fromkeys(("replicas", "readyReplicas", "upToDateReplicas", "versions")),
                "desiredReplicas": 1,
                "availableReplicas": 0,
            },
            id="more unavailable than desired",
        ),
        pytest.param(
            Observed(
                cluster(WITH_REF),
                control_plane=found(
                    "FakeControlPlane",
                    spec={"replicas": "3"},
                    replicas=True,
                    readyReplicas="2",
                    versions=[*V1, {"version": 1, "replicas": 1}, {"version": "v2", "replicas": "2"}, {}, "v3"],
                ),
            ),
            {**dict.fromkeys(counted(0)), "versions": V1},
            id="of wrong types",
        ),
        pytest.param(
            Observed(
                cluster(),
                descendants=of_kinds(
                    machine("cp", *READY_MACHINE, labels=CP, nodeInfo={"kubeletVersion": "v1.36.0"}),
                    machine("cp2", labels=CP, spec={"version": "v1.9.1"}),
                    machine("w", *READY_MACHINE),
                ),
            ),
            {
                **counted(1),
                "desiredReplicas": 2,
                "replicas": 2,
                "versions": [{"version": "v1.9.1", "replicas": 1}, {"version": "v1.36.0", "replicas": 1}],
            },
            id="Machines alone",
        ),
    ],
)
def test_replicas_of_the_control_plane(observed: Observed, expected: Object | None) -> None:
    assert (decide(observed, NOW).status or {})["controlPlane"] == expected


@pytest.mark.parametrize(
    "versions",
    [
        ["v1.36.0-alpha.10", "v1.36.0-rc.1", "v1.36.0", "v1.36.1"],
        ["v1.9.0", "v1.36.0-rc.2", "v1.36.0-rc.10", "v1.36.0"],
        ["v1.36.0+k3s1", "v1.36.0+k3s2", "v1.36.0+k3s10", "v1.36.1-rc.1+k3s1", "v1.36.1+k3s1"],
        ["v1.36.0", "latest"],
    ],
    ids=["pre-releases", "numeric identifiers", "builds", "no version"],
)
def test_versions_are_in_semantic_order(versions: list[str]) -> None:
    for given in (versions, versions[::-1]):
        members = [machine(f"cp{number}", labels=CP, spec={"version": one}) for number, one in enumerate(given)]
        status = decide(Observed(cluster(), descendants=of_kinds(*members)), NOW).status or {}
        assert [each["version"] for each in status["controlPlane"]["versions"]] == versions


@pytest.mark.parametrize("metadata", [None, DELETED], ids=["the list failed", "deletion"])
def test_replicas_of_machines_that_were_not_read_stay(metadata: Object | None) -> None:
    failure = "" if metadata else FAILED
    observed = Observed(cluster(metadata=metadata), descendants=None, failure=failure)
    assert not {"controlPlane", "workers"} & set(decide(observed, NOW).status or {})


def test_replicas_of_workers_are_summed() -> None:
    members = (
        member(MACHINE_DEPLOYMENT, "md", spec={"replicas": 3}, versions=V1, **counts(3)),
        member(MACHINE_POOL, "mp", spec={"replicas": 2}, **counts(2)),
        member(MACHINE_SET, "ms", spec={"replicas": 1}, **counts(1), **OWNED),
        member(MACHINE_SET, "of-md", spec={"replicas": 3}, **counts(3)),
        machine("alone", *READY_MACHINE, spec={"version": "v1.36.0"}, **OWNED),
        machine("of-ms", *READY_MACHINE),
        machine("pooled", *READY_MACHINE, labels={"cluster.x-k8s.io/pool-name": "mp"}, **OWNED),
    )
    status = decide(Observed(cluster(), descendants=of_kinds(*members)), NOW).status or {}
    assert status["workers"] == counted(7, [{"version": "v1.36.0", "replicas": 4}])
    assert status["controlPlane"] is None


@pytest.mark.parametrize(
    ("descendants", "about", "shown"),
    [
        pytest.param({}, cluster(), False, id="none"),
        pytest.param({}, machine("w"), True, id="in the event"),
        pytest.param(of_kinds(machine("w", **OWNED)), cluster(), True, id="of workers"),
        pytest.param(of_kinds(machine("cp", labels=CP)), cluster(), True, id="of the control plane alone"),
    ],
)
def test_status_and_event_show_whether_there_are_machines(descendants: Descendants, about: Object, shown: bool) -> None:
    """Then a process whose discovery is older than the kinds of Machines loads it again."""
    obj = cluster() | {"status": decide(Observed(cluster(), descendants=descendants), NOW).status}
    event = change_event(about, "update", source="/test")
    assert shows_machines(obj, event) is shown
    obj["status"] |= {"observedGeneration": 1}
    assert shows_no_machines(obj, event) is not shown, "then they are not listed again"
    assert not shows_no_machines(obj | {"metadata": {"generation": 2}}, event), "they may depend on the new spec"
    assert not shows_no_machines(cluster(observedGeneration=1), event), "they were never listed"


# -- contracts ---------------------------------------------------------------------------------------------------

FLAGS: dict[str, Object] = {"v1beta2": {"initialization": {"provisioned": True}}, "older": {"ready": True}}
AS_MAP: Object = {"b": {"controlPlane": True}, "a": {"attributes": {"zone": "1"}}}
AS_LIST: list[Object] = [{"name": "b", "controlPlane": True}, {"name": "a", "attributes": {"zone": "1"}}]
SORTED = [
    {"name": "a", "controlPlane": False, "attributes": {"zone": "1"}},
    {"name": "b", "controlPlane": True},
]


def of_contract(contract: str, spec: Object | None = None, **status: Any) -> LookupResult:
    return replace(found("FakeInfraCluster", spec=spec, **status), contract=contract)


@pytest.mark.parametrize(
    ("contract", "status", "provisioned"),
    [
        ("", FLAGS["v1beta2"], True),
        ("", FLAGS["older"], True),
        ("v1beta2", FLAGS["v1beta2"], True),
        ("v1beta2", FLAGS["older"], False),
        ("v1beta1", FLAGS["older"], True),
        ("v1beta1", FLAGS["v1beta2"], False),
        ("v1alpha2", FLAGS["older"], True),
        ("v1beta2", {}, False),
    ],
)
def test_contract_says_where_an_object_reports_that_it_is_provisioned(
    contract: str, status: Object, provisioned: bool
) -> None:
    decision = decide(Observed(cluster(TO_INFRA), of_contract(contract, **status)), NOW)
    assert (dig(decision.status, "initialization.infrastructureProvisioned") is True) is provisioned


@pytest.mark.parametrize(
    ("contract", "domains", "expected"),
    [
        ("", AS_MAP, SORTED),
        ("", AS_LIST, SORTED),
        ("v1beta1", AS_MAP, SORTED),
        ("v1beta2", AS_LIST, SORTED),
        ("v1beta2", None, None),
        ("v1beta1", AS_LIST, "a list, but must be a map in contract v1beta1"),
        ("v1beta2", AS_MAP, "a dict, but must be a list in contract v1beta2"),
    ],
)
def test_failure_domains_have_the_shape_of_the_contract(contract: str, domains: Any, expected: Any) -> None:
    ready: Object = {**FLAGS["v1beta2"], **FLAGS["older"]}
    obj = cluster(TO_INFRA, failureDomains=[{"name": "stale"}])
    decision = decide(Observed(obj, of_contract(contract, failureDomains=domains, **ready)), NOW)
    if isinstance(expected, str):
        assert expected in decision.message
        assert "failureDomains" not in (decision.status or {})
        assert "observedGeneration" not in (decision.status or {})
    else:
        assert (decision.status or {})["failureDomains"] == expected


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([{"host": "h1", "port": 6443}, {"host": "h2", "port": 6443}], {"host": "h1", "port": 6443}),
        ([], None),
        ([{"host": "h1"}], None),
    ],
)
def test_first_endpoint_of_v1alpha2_is_copied(endpoints: list[Object], expected: Object | None) -> None:
    found_infra = of_contract("v1alpha2", ready=True, apiEndpoints=endpoints)
    effects = decide(Observed(cluster(TO_INFRA), found_infra), NOW).effects
    assert [e.patch["spec"]["controlPlaneEndpoint"] for e in effects if isinstance(e, Patch)] == (
        [expected] if expected else []
    )


# -- status.deprecated.v1beta1 -----------------------------------------------------------------------------------


def test_deprecated_conditions_follow_the_others() -> None:
    block = dig(decide(Observed(cluster(TO_INFRA), found("FakeInfraCluster")), NOW).status, "deprecated.v1beta1")
    assert [(one["type"], one["status"], one.get("reason"), one.get("severity")) for one in block["conditions"]] == [
        ("InfrastructureReady", "False", "NotReady", "Info"),
        ("ControlPlaneInitialized", "False", "NotInitialized", "Info"),
        ("ControlPlaneReady", "True", None, None),
        ("Ready", "False", "NotReady", "Info"),
    ]
    assert "observedGeneration" not in block["conditions"][0]


@pytest.mark.parametrize(
    ("infrastructure", "available", "expected"),
    [
        pytest.param(entry("Ready", "True"), entry("Available", "True"), ("True", None), id="not initialized"),
        pytest.param(entry("Ready", "False", "A"), entry("Available", "True"), ("False", "A"), id="infrastructure"),
        pytest.param(entry("Ready", "False", "A"), entry("Available", "False", "B"), ("False", "B"), id="both"),
    ],
)
def test_deprecated_ready_sums_up_infrastructure_and_control_plane(
    infrastructure: Object, available: Object, expected: tuple[str, str | None]
) -> None:
    alien = {"type": "Alien", "status": "False", "severity": "Error", "reason": "Foreign", "lastTransitionTime": OLD}
    before = {"deprecated": {"v1beta1": {"conditions": [alien]}}}
    observed = Observed(
        cluster(TO_INFRA | WITH_REF, **before),
        found("FakeInfraCluster", infrastructure),
        found("FakeControlPlane", available),
    )
    conditions = dig(decide(observed, NOW).status, "deprecated.v1beta1.conditions")
    ready = get_condition(conditions, "Ready") or {}
    assert (ready["status"], ready.get("reason")) == expected
    assert get_condition(conditions, "ControlPlaneInitialized") is not None
    assert get_condition(conditions, "Alien") == alien


SAID = 'Failure detected from referenced resource g/v1, Kind=FakeInfraCluster with name "demo": no quota'
RECORDED: Object = {"deprecated": {"v1beta1": {"failureReason": "Old", "failureMessage": "old"}}}


@pytest.mark.parametrize(
    ("obj", "found_infra", "expected"),
    [
        (cluster(TO_INFRA), found("FakeInfraCluster"), {}),
        (
            cluster(TO_INFRA),
            found("FakeInfraCluster", failureReason="Quota", failureMessage="no quota"),
            {"failureReason": "Quota", "failureMessage": SAID},
        ),
        (
            cluster(TO_INFRA),
            found("FakeInfraCluster", errorReason="Quota", errorMessage="no quota"),
            {"failureReason": "Quota", "failureMessage": SAID},
        ),
        (
            cluster(TO_INFRA, **RECORDED),
            found("FakeInfraCluster"),
            {"failureReason": None, "failureMessage": None},
        ),
        (cluster(TO_INFRA, **RECORDED), LookupResult("failed", "FakeInfraCluster", error="boom"), {}),
    ],
)
def test_failures_of_referenced_objects_are_copied(obj: Object, found_infra: LookupResult, expected: Object) -> None:
    block = dig(decide(Observed(obj, found_infra), NOW).status, "deprecated.v1beta1")
    assert {name: value for name, value in block.items() if name != "conditions"} == expected
