"""ClusterRollouts on a real API server: waves, failures, pauses, downgrades, two rollouts for one Cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.cluster_rollout.decide import SAFETY
from shared.api.resources import CLUSTER, CLUSTER_CLASS, CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.cluster_rollouts import MoveClusters, move
from shared.kube import ApiError, Client, Object, dig
from tests.support import objects
from tests.support.cluster_rollouts import CANARY, NEW, NEWEST, OLD, Rollouts

STRATEGY = {"maxUnavailable": "40%", "partitions": [{**CANARY, "maxUnavailable": 1}]}


@pytest.fixture
def rollouts(management: Client, clients: Clients, namespace: str) -> Iterator[Rollouts]:
    made = Rollouts(management, clients, namespace)
    yield made
    made.remove_all()


def condition(rollout: Object, type_: str = "Ready") -> tuple[str, str, str]:
    found = objects.condition(rollout, type_)
    return found["status"], found.get("reason", ""), found.get("message", "")


def steps(rollouts: Rollouts, to: str) -> list[list[str]]:
    """Reconciles until nothing waits; returns which Clusters got the class in each step."""
    found: list[list[str]] = []
    had = set(rollouts.with_class(to))
    for _ in range(20):
        stored = rollouts.reconcile()
        has = set(rollouts.with_class(to))
        found.append(sorted(has - had))
        had = has
        rollouts.report()
        if not dig(stored, "status.rollout.waiting"):
            return found
    raise AssertionError(f"the rollout did not end: {found}")


def test_classes_move_from_wave_to_wave(rollouts: Rollouts) -> None:
    rollouts.fleet(canary=2, main=9)
    rollouts.rollout(rolloutStrategy=STRATEGY, version="v1.36.2")
    mains = [["main-0", "main-1", "main-2", "main-3"], ["main-4", "main-5", "main-6", "main-7"], ["main-8"]]
    assert steps(rollouts, NEW) == [["canary-0"], ["canary-1"], *mains]
    assert rollouts.answers[-1].retry_after == SAFETY
    stored = rollouts.reconcile()
    assert condition(stored) == ("True", "UpToDate", "")
    assert rollouts.answers[-1].retry_after is None
    versions = {dig(one, "spec.topology.version") for one in rollouts.client.list(CLUSTER, rollouts.namespace)}
    assert versions == {"v1.36.2"}
    rollouts.patch({"topology": {"classRef": {"name": NEWEST}}})
    assert steps(rollouts, NEWEST) == [["canary-0"], ["canary-1"], *mains]


def test_failure_stops_the_rollout_until_a_class_repairs_it(rollouts: Rollouts) -> None:
    rollouts.fleet(canary=2, main=2)
    rollouts.rollout(rolloutStrategy=STRATEGY)
    rollouts.reconcile()
    rollouts.report("canary-0")
    for _ in range(2):
        stored = rollouts.reconcile()
        assert rollouts.with_class(NEW) == ["canary-0"]
    assert condition(stored) == (
        "False",
        "RolloutWaiting",
        "2 Clusters wait: partition canary is not up to date and ready yet; "
        "1 Cluster waits: 1 of 2 Clusters of partition canary are unavailable, and at most 1 may be; "
        "not ready: canary-0: TopologyReconciled: ReconcileFailed",
    )
    rollouts.patch({"topology": {"classRef": {"name": NEWEST}}})
    assert steps(rollouts, NEWEST)[:2] == [["canary-0"], ["canary-1"]]


def test_paused_rollout_changes_nothing_until_it_is_resumed(rollouts: Rollouts) -> None:
    rollouts.fleet(main=2)
    rollouts.rollout(rolloutStrategy={"paused": True})
    assert condition(rollouts.reconcile()) == ("False", "RolloutPaused", "2 Clusters wait: the rollout is paused")
    assert rollouts.with_class(NEW) == []
    rollouts.patch({"rolloutStrategy": {"paused": None}})
    rollouts.reconcile()
    assert rollouts.with_class(NEW) == ["main-0", "main-1"]


def test_class_is_changed_in_a_window_only(rollouts: Rollouts) -> None:
    rollouts.fleet(main=1)
    rollouts.rollout(rolloutStrategy={"windows": [{"schedule": "0 0 30 2 *", "duration": "1h"}]})
    assert condition(rollouts.reconcile()) == ("False", "RolloutWaiting", "1 Cluster waits: no window will open again")
    always = {"schedule": "* * * * *", "duration": "1h", "timeZone": "Asia/Tokyo"}
    rollouts.patch({"rolloutStrategy": {"windows": [always]}})
    rollouts.reconcile()
    assert rollouts.with_class(NEW) == ["main-0"]


def test_failures_in_a_row_stop_the_rollout(rollouts: Rollouts) -> None:
    rollouts.fleet(main=9)
    rollouts.rollout(rolloutStrategy={"maxUnavailable": 4, "maxConsecutiveFailures": 2})
    rollouts.reconcile()
    rollouts.report("main-1", "main-2")
    stored = rollouts.reconcile()
    assert len(rollouts.with_class(NEW)) == 4
    assert condition(stored)[2].startswith("5 Clusters wait: 2 Clusters failed in a row, the last one is main-2")


def test_newer_cluster_is_left_alone_and_reported_until_a_downgrade_is_allowed(rollouts: Rollouts) -> None:
    rollouts.fleet(main=1)
    rollouts.cluster("newer", NEWEST)
    rollouts.report()
    rollouts.rollout()
    rollouts.reconcile()
    rollouts.report()
    stored = rollouts.reconcile()
    assert (rollouts.with_class(NEW), rollouts.with_class(NEWEST)) == (["main-0"], ["newer"])
    message = f"newer stays unchanged, because its class {NEWEST} is newer"
    assert condition(stored, "ClustersAccepted") == ("False", "ClustersLeftAlone", message)
    assert condition(stored)[1] == "UpToDate"
    rollouts.patch({"allowDowngrade": True})
    assert condition(rollouts.reconcile(), "ClustersAccepted")[0] == "True"
    assert rollouts.with_class(NEW) == ["main-0", "newer"]


def test_cluster_of_two_rollouts_is_changed_by_neither(rollouts: Rollouts) -> None:
    rollouts.fleet(canary=1, main=1)
    rollouts.rollout()
    rollouts.rollout("other", NEWEST, clusterSelector={"matchLabels": {"wave": "canary"}})
    for name, rival in (("next", "other"), ("other", "next")):
        stored = rollouts.reconcile(name)
        message = f"canary-0: ClusterRollout {rival} also selects it"
        assert condition(stored, "ClustersAccepted") == ("False", "SelectedTwice", message)
        assert condition(stored)[1] == "RolloutWaiting"
    assert rollouts.with_class(OLD) == ["canary-0"]
    rollouts.client.delete(CLUSTER_ROLLOUT, rollouts.key("other"))
    assert condition(rollouts.reconcile(), "ClustersAccepted")[0] == "True"
    assert rollouts.with_class(NEW) == ["canary-0", "main-0"]


@pytest.mark.parametrize("held", [True, False], ids=["being deleted", "gone"])
def test_missing_class_holds_the_rollout(rollouts: Rollouts, held: bool) -> None:
    rollouts.fleet(main=2)
    rollouts.rollout(rolloutStrategy={"maxUnavailable": 1})
    rollouts.reconcile()
    rollouts.report()
    if held:
        rollouts.client.patch(CLUSTER_CLASS, rollouts.key(NEW), {"metadata": {"finalizers": ["a.b/c"]}})
    rollouts.client.delete(CLUSTER_CLASS, rollouts.key(NEW))
    missing = f"1 Cluster waits: ClusterClass {rollouts.namespace}/{NEW} does not exist"
    assert condition(rollouts.reconcile()) == ("False", "RolloutWaiting", missing)
    assert rollouts.with_class(NEW) == ["main-0"]


def test_paused_cluster_takes_no_part(rollouts: Rollouts) -> None:
    rollouts.fleet(main=2)
    rollouts.client.patch(CLUSTER, rollouts.key("main-0"), {"spec": {"paused": True}})
    rollouts.rollout()
    assert dig(rollouts.reconcile(), "status.rollout.partitions")[0]["count"] == 1
    assert rollouts.with_class(NEW) == ["main-1"]


def test_failed_write_of_one_cluster_stops_no_other(rollouts: Rollouts) -> None:
    rollouts.fleet(main=2)
    rollout = rollouts.rollout()
    first, second = (move(rollout, rollouts.client.get(CLUSTER, rollouts.key(f"main-{n}"))) for n in (0, 1))
    refused = replace(first, patch={"spec": {"topology": {"version": ""}}})
    assert list(MoveClusters((refused, second)).execute(rollouts.clients)) == ["main-0"]
    assert rollouts.with_class(NEW) == ["main-1"]


def test_cluster_that_has_gone_meanwhile_is_no_failure(rollouts: Rollouts) -> None:
    rollouts.fleet(main=2)
    rollout = rollouts.rollout()
    moves = tuple(move(rollout, rollouts.client.get(CLUSTER, rollouts.key(f"main-{n}"))) for n in (0, 1))
    objects.remove(rollouts.client, CLUSTER, rollouts.key("main-0"))
    assert MoveClusters(moves).execute(rollouts.clients) == {}
    assert rollouts.with_class(NEW) == ["main-1"]


def test_requests_of_a_look_do_not_grow_with_the_fleet(rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch) -> None:
    rollouts.fleet(main=8)
    rollouts.rollout(rolloutStrategy={"paused": True})
    rollouts.reconcile()
    sent: list[str] = []
    request = Client.request

    def counted(self: Client, method: str, path: str, *args: Any, **options: Any) -> Any:
        sent.append(f"{method} {path}")
        return request(self, method, path, *args, **options)

    monkeypatch.setattr(Client, "request", counted)
    rollouts.reconcile()
    assert len(sent) - 2 <= 5, sent  # without the two reads of the test


@pytest.mark.parametrize("spec", [{"rolloutStrategy": None}, {"topology": {"classRef": {"name": ""}}}])
def test_rollout_without_class_or_strategy_is_refused(rollouts: Rollouts, spec: Any) -> None:
    with pytest.raises(ApiError):
        rollouts.rollout(**spec)
