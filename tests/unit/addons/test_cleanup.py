"""`addon_cleanup`, in tables: what is left in a workload cluster, how long it is waited for, what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from functions.addon_cleanup.decide import decide
from functions.addon_cleanup.leftovers import Leftovers, leftovers
from functions.addon_cleanup.observe import Observed
from functions.addon_cleanup.removal import RemoveLeftovers
from shared.api.conditions import get_condition, rfc3339
from shared.api.hooks import WAIT_ANNOTATION
from shared.applier.connection import ConnectionFailed
from shared.clients import ClusterClients
from shared.kube import Object
from shared.runtime import Decision
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def named(name: str, spec: Object | None = None, **metadata: Any) -> Object:
    return {"metadata": {"namespace": "ns", "name": name, **metadata}, "spec": spec or {}}


def volume(name: str, policy: str = "Delete", claimed: bool = True) -> Object:
    claim = {"claimRef": {"name": "x"}} if claimed else {}
    return {"metadata": {"name": name}, "spec": {"persistentVolumeReclaimPolicy": policy, **claim}}


def claim(name: str, volume_name: str = "") -> Object:
    return named(name, {"volumeName": volume_name} if volume_name else {})


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


# -- leftovers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "expected"), [("LoadBalancer", ["s"]), ("ClusterIP", []), ("NodePort", []), (None, [])]
)
def test_services_with_load_balancers_are_left(type_: str | None, expected: list[str]) -> None:
    assert names(leftovers([named("s", {"type": type_})], [], [], []).services) == expected


@pytest.mark.parametrize(
    ("volumes", "left"),
    [
        ([volume("v")], ["v"]),
        ([volume("v", "Retain")], []),
        ([volume("v", claimed=False)], []),
    ],
    ids=["deleted with its claim", "retained", "without claim"],
)
def test_volumes_that_go_with_their_claims_are_left(volumes: list[Object], left: list[str]) -> None:
    found = leftovers([], [claim("bound", "v"), claim("pending"), claim("other", "unknown")], volumes, [])
    assert names(found.volumes) == left
    assert names(found.claims) == (["bound", "pending"] if left else ["pending"])


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        (named("p", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}), True),
        (named("p", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]}), False),
        (named("p", {"volumes": [{"name": "c", "ephemeral": {}}]}), False),
        (named("c", {"volumes": [{"name": "c", "emptyDir": {}}]}), False),
        (named("p", {"volumes": [{"name": "x"}, {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}), True),
        (
            {
                **named("p", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}),
                "metadata": {"namespace": "other", "name": "p"},
            },
            False,
        ),
        (named("p"), False),
    ],
    ids=["uses the claim", "another claim", "ephemeral", "no claim", "the second volume", "another namespace", "none"],
)
def test_pods_that_use_the_claims_are_left(pod: Object, used: bool) -> None:
    assert names(leftovers([], [claim("c")], [], [pod]).pods) == ([pod["metadata"]["name"]] if used else [])


def test_ephemeral_claim_is_named_after_pod_and_volume() -> None:
    pod = named("p", {"volumes": [{"name": "scratch", "ephemeral": {}}]})
    assert names(leftovers([], [claim("p-scratch")], [], [pod]).pods) == ["p"]


def test_pods_are_not_read_without_claims() -> None:
    def pods() -> Iterator[Object]:
        raise AssertionError
        yield {}

    assert leftovers([], [claim("kept", "unknown")], [volume("v", "Retain")], pods()) == Leftovers([], [], [], ())


def test_very_many_leftovers_are_removed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are being deleted do not keep the others from being found."""
    monkeypatch.setattr("functions.addon_cleanup.leftovers.MOST", 1000)
    there = [named(f"s{number}", {"type": "LoadBalancer"}) for number in range(100)]
    looks = 0
    while removable := [obj for _, obj in leftovers(there, [], [], []).removable]:
        looks += 1
        assert len(removable) < 100
        for obj in removable:
            obj["metadata"]["deletionTimestamp"] = "x"
    assert looks > 2
    assert 0 < len(leftovers(there, [], [], []).awaited) < 100


GOING = {"deletionTimestamp": "x"}
ALL = Leftovers([named("s")], [claim("c")], [volume("v")], [named("p")])


def test_volumes_are_awaited_but_not_removed_and_pods_the_reverse() -> None:
    assert [(resource.kind, obj["metadata"]["name"]) for resource, obj in ALL.removable] == [
        ("Service", "s"),
        ("Pod", "p"),
        ("PersistentVolumeClaim", "c"),
    ]
    assert ALL.awaited == ["Service ns/s", "PersistentVolumeClaim ns/c", "PersistentVolume v"]


def test_what_is_being_deleted_is_awaited_but_not_removed_again() -> None:
    found = Leftovers([named("s", **GOING)])
    assert (found.removable, found.awaited) == ([], ["Service ns/s"])


# -- decide ------------------------------------------------------------------------------------------------------


def addon(*conditions: Object, waits_since: datetime | None = None, target: str = "u") -> Object:
    value = f"{rfc3339(waits_since)} BeforeClusterDelete {target}" if waits_since else ""
    annotations = {WAIT_ANNOTATION: value} if value else {}
    metadata = {"name": "cluster-addon-demo", "namespace": "ns", "annotations": annotations}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def cluster(deleted: datetime = NOW) -> Object:
    return {"metadata": {"name": "demo", "namespace": "ns", "uid": "u", "deletionTimestamp": rfc3339(deleted)}}


WORKLOAD = cast(ClusterClients, object())


def observed(found: Leftovers | ConnectionFailed | None, obj: Object | None = None, **more: Any) -> Observed:
    workload = WORKLOAD if isinstance(found, Leftovers) else None
    return Observed(
        obj or addon(), **{"cluster": cluster(), "due": True, "workload_cluster": workload, **more}, leftovers=found
    )


def condition(decision: Decision) -> tuple[str, str, str]:
    found = get_condition((decision.status or {})["conditions"], "WorkloadCleanedUp") or {}
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize(
    "seen",
    [
        Observed(None),
        observed(ALL, due=False),
        observed(ALL, addon({"type": "WorkloadCleanedUp", "status": "True"})),
    ],
    ids=["no addon", "not due", "done"],
)
def test_there_is_nothing_to_clean_up(seen: Observed) -> None:
    assert decide(seen, NOW) == Decision(message="nothing to clean up")


def test_clean_up_ends_once_nothing_is_left() -> None:
    decision = decide(observed(Leftovers(pods=[named("p")])), NOW)
    assert condition(decision)[:2] == ("True", "CleanedUp")
    assert (decision.effects, decision.requeue_after) == ((), None)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("CleanedUp", "Normal")]


def test_leftovers_are_removed_and_awaited() -> None:
    decision = decide(observed(ALL), NOW)
    assert decision.effects == (RemoveLeftovers(WORKLOAD, ALL),)
    assert condition(decision) == (
        "False",
        "CleanupOngoing",
        "waiting for the deletion of Service ns/s; PersistentVolumeClaim ns/c; PersistentVolume v",
    )
    assert decision.requeue_after == 5.0
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("CleanupOngoing", "Normal")]


def test_leftovers_that_go_already_are_only_awaited() -> None:
    decision = decide(observed(Leftovers([named("s", **GOING)])), NOW)
    assert (decision.effects, decision.requeue_after) == ((), 5.0)


@pytest.mark.parametrize(("count", "more"), [(3, False), (4, True)])
def test_three_leftovers_are_named(count: int, more: bool) -> None:
    message = condition(decide(observed(Leftovers([named(str(n)) for n in range(count)])), NOW))[2]
    assert message.endswith("Service ns/2; and 1 more" if more else "Service ns/2")


def test_unreachable_workload_cluster_is_reported_and_retried() -> None:
    decision = decide(observed(ConnectionFailed("no answer")), NOW)
    assert condition(decision) == ("False", "WorkloadUnreachable", "no answer")
    assert (decision.effects, decision.requeue_after) == ((), 10.0)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


@pytest.mark.parametrize(
    ("deleted", "waits_since", "target", "given_up"),
    [
        pytest.param(NOW, None, "u", False, id="just deleted"),
        pytest.param(NOW - timedelta(seconds=599), None, "u", False, id="time is left"),
        pytest.param(NOW - timedelta(minutes=10), None, "u", True, id="deleted long ago"),
        pytest.param(NOW - timedelta(hours=1), NOW, "u", False, id="the hook was called just now"),
        pytest.param(NOW - timedelta(hours=1), NOW, "other", True, id="a hook of another Cluster"),
        pytest.param(NOW, NOW - timedelta(hours=1), "u", False, id="a hook before this deletion"),
    ],
)
def test_clean_up_is_given_up_after_its_deadline(
    deleted: datetime, waits_since: datetime | None, target: str, given_up: bool
) -> None:
    obj = addon(waits_since=waits_since, target=target)
    for found in (ALL, ConnectionFailed("no answer")):
        decision = decide(observed(found, obj, cluster=cluster(deleted)), NOW)
        assert (condition(decision)[1] == "CleanupGivenUp") is given_up
        assert (decision.requeue_after is None) is given_up


def test_what_is_given_up_is_named() -> None:
    decision = decide(observed(ALL, cluster=cluster(NOW - timedelta(hours=1))), NOW)
    assert decision.effects == ()
    assert "the clean-up ended after its timeout of 600 s" in condition(decision)[2]
    assert "Service ns/s" in condition(decision)[2]
    found = get_condition((decision.status or {})["conditions"], "WorkloadCleanedUp") or {}
    assert (found["status"], found["severity"]) == ("False", "Warning")
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


# -- report ------------------------------------------------------------------------------------------------------


def test_rejected_deletions_are_reported() -> None:
    seen = observed(ALL)
    decision = decide(seen, NOW)
    failures = [f"Service ns/{number}: forbidden" for number in range(4)]
    reported = decide(seen, NOW, results_of(decision, {RemoveLeftovers: failures}))
    assert condition(reported) == (
        "False",
        "CleanupFailed",
        "Service ns/0: forbidden; Service ns/1: forbidden; Service ns/2: forbidden; and 1 more",
    )
    found = get_condition((reported.status or {})["conditions"], "WorkloadCleanedUp") or {}
    assert (found["severity"], reported.requeue_after) == ("Error", 10.0)
    assert [event.type for event in reported.kubernetes_events] == ["Warning"]


def test_accepted_deletions_are_reported_as_decided() -> None:
    seen = observed(ALL)
    decision = decide(seen, NOW)
    assert decide(seen, NOW, results_of(decision, {RemoveLeftovers: []})) == decision
