"""A KINDCluster's status shows its current state; its history keeps past events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.kind_cluster.decide import Start, Stop, decide
from functions.kind_cluster.observe import Observed
from functions.kind_cluster.runtime import Instance
from functions.kind_cluster.triggers import FINALIZER
from shared.effects import RemoveFinalizer, would_change
from shared.kube import Object, dig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Instance("failed", "no room")


def kind_cluster() -> Object:
    metadata = {"name": "demo", "namespace": "default", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
    return {"apiVersion": "g/v1", "kind": "KINDCluster", "metadata": metadata, "spec": {"clusterName": "dev"}}


def turn(obj: Object, instance: Instance, minute: int = 0) -> list[str]:
    """Decides once and stores the status. Returns the reasons of the events."""
    decision = decide(Observed(obj, instance), NOW + timedelta(minutes=minute))
    merged = {**obj.get("status", {}), **(decision.status or {})}
    obj["status"] = {name: value for name, value in merged.items() if value is not None}
    return [event.reason for event in decision.kubernetes_events]


@pytest.mark.parametrize("then", [Instance("absent"), Instance("starting"), Instance("ready", host="h", port=1)])
def test_failure_message_is_removed_after_recovery(then: Instance) -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    assert "no room" in obj["status"]["failureMessage"]
    turn(obj, then)
    assert "failureMessage" not in obj["status"]
    assert obj["status"]["conditions"][0]["reason"] == "no room"


@pytest.mark.parametrize(
    ("phase", "going", "effects"),
    [
        ("absent", False, [Start("u")]),
        ("starting", False, []),
        ("failed", False, [Start("u")]),
        ("unknown", False, []),
        ("absent", True, [Stop("u"), RemoveFinalizer]),
        ("failed", True, [Stop("u"), RemoveFinalizer]),
        ("unknown", True, []),
    ],
)
def test_runtime_is_called_by_effects_where_it_can_be_used(phase: Any, going: bool, effects: list[Any]) -> None:
    obj = kind_cluster()
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    found = decide(Observed(obj, Instance(phase, "no room")), NOW).effects
    assert [one if isinstance(one, (Start, Stop)) else type(one) for one in found] == effects


def test_failure_message_is_removed_on_deletion() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    turn(obj, Instance("absent"))
    assert (obj["status"]["phase"], "failureMessage" in obj["status"]) == ("Deleting", False)


def test_repeated_failure_adds_one_entry_and_one_event() -> None:
    obj = kind_cluster()
    reasons = [
        reason for minute in range(4) for reason in turn(obj, FAILED if minute % 2 else Instance("starting"), minute)
    ]
    assert reasons == ["ClusterNotCreated"]
    assert [entry["timestamp"] for entry in obj["status"]["conditions"]] == ["2026-01-01T00:01:00Z"]


def test_failure_after_success_adds_another_entry_and_event() -> None:
    obj = kind_cluster()
    instances = (FAILED, Instance("ready", host="h", port=1), FAILED)
    reasons = [reason for minute, instance in enumerate(instances) for reason in turn(obj, instance, minute)]
    assert reasons == ["ClusterNotCreated", "ClusterCreated", "ClusterNotCreated"]
    assert len(obj["status"]["conditions"]) == 3


def test_reconciling_an_unchanged_failure_changes_nothing() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    again = decide(Observed(obj, FAILED), NOW + timedelta(hours=1))
    assert not would_change(dig(obj, "status"), again.status)
