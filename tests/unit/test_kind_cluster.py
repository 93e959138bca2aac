"""What a KINDCluster says of itself is about now; what happened before is in its history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from functions.kind_cluster.decide import FINALIZER, decide
from functions.kind_cluster.observe import Observed
from functions.kind_cluster.runtime import Instance
from shared.effects import would_change
from shared.kube import Object, dig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = Instance("failed", "no room")


class Idle:
    """A runtime that nothing is asked of: effects are not carried out here."""

    def inspect(self, uid: str) -> Instance:
        raise NotImplementedError

    def create(self, uid: str, authority: tuple[bytes, bytes] | None) -> None:
        raise NotImplementedError

    def delete(self, uid: str) -> None:
        raise NotImplementedError


def kind_cluster() -> Object:
    metadata = {"name": "demo", "namespace": "default", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
    return {"apiVersion": "g/v1", "kind": "KINDCluster", "metadata": metadata, "spec": {"clusterName": "dev"}}


def turn(obj: Object, instance: Instance, minute: int = 0) -> list[str]:
    """One decision; its status is written. Returns the reasons of its events."""
    decision = decide(Observed(obj, Idle(), instance), NOW + timedelta(minutes=minute))
    merged = {**obj.get("status", {}), **(decision.status or {})}
    obj["status"] = {name: value for name, value in merged.items() if value is not None}
    return [event.reason for event in decision.kubernetes_events]


@pytest.mark.parametrize("then", [Instance("absent"), Instance("starting"), Instance("ready", host="h", port=1)])
def test_a_failure_that_is_over_is_not_said_any_more(then: Instance) -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    assert "no room" in obj["status"]["failureMessage"]
    turn(obj, then)
    assert "failureMessage" not in obj["status"]
    assert obj["status"]["conditions"][0]["reason"] == "no room"


def test_a_failure_that_is_over_is_not_said_of_a_deletion() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    turn(obj, Instance("absent"))
    assert (obj["status"]["phase"], "failureMessage" in obj["status"]) == ("Deleting", False)


def test_the_same_failure_time_and_again_is_one_entry_and_one_event() -> None:
    obj = kind_cluster()
    told = [
        reason for minute in range(4) for reason in turn(obj, FAILED if minute % 2 else Instance("starting"), minute)
    ]
    assert told == ["ClusterNotCreated"]
    assert [entry["timestamp"] for entry in obj["status"]["conditions"]] == ["2026-01-01T00:01:00Z"]


def test_the_same_failure_after_a_success_is_news() -> None:
    obj = kind_cluster()
    instances = (FAILED, Instance("ready", host="h", port=1), FAILED)
    told = [reason for minute, instance in enumerate(instances) for reason in turn(obj, instance, minute)]
    assert told == ["ClusterNotCreated", "ClusterCreated", "ClusterNotCreated"]
    assert len(obj["status"]["conditions"]) == 3


def test_a_second_look_at_a_failure_changes_nothing() -> None:
    obj = kind_cluster()
    turn(obj, FAILED)
    again = decide(Observed(obj, Idle(), FAILED), NOW + timedelta(hours=1))
    assert not would_change(dig(obj, "status"), again.status)
