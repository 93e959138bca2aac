"""A change of a Cluster, of its addons or of a ClusterRollout wakes the ClusterRollouts of the namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions import catalog
from functions.rollout_wake import function
from shared import wake
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Object
from tests.support.accounts import as_function
from tests.support.cluster_rollouts import NEW, Rollouts
from tests.support.event_receiver import EventReceiver


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventReceiver]:
    with EventReceiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        yield sink


@pytest.fixture
def rollouts(management: Client, clients: Clients, namespace: str) -> Iterator[Rollouts]:
    made = Rollouts(management, clients, namespace)
    yield made
    made.remove_all()


def woken(clients: Clients, sink: EventReceiver, changed: Object) -> list[str]:
    """Delivers a change long after the last one; returns the names of the ClusterRollouts that an event follows for."""
    sink.received.clear()
    function._WOKEN.clear()
    assert catalog.handler("rollout_wake")(clients, change_event(changed, "update", source="/test")).status == 204
    assert {(event.type, event.kind) for _, event, _ in sink.received} <= {(wake.CHANGED, CLUSTER_ROLLOUT.kind)}
    return sorted(event.name for _, event, _ in sink.received)


def test_changes_wake_the_rollouts_of_the_namespace(rollouts: Rollouts, sink: EventReceiver, kubeconfig: Path) -> None:
    rollouts.fleet(main=1)
    cluster = rollouts.client.get(CLUSTER, rollouts.key("main-0"))
    addon = rollouts.client.get(CLUSTER_ADDON, addon_of(cluster))
    limited = as_function(rollouts.client, kubeconfig, "rollout_wake")
    assert woken(limited, sink, cluster) == []
    for name in ("next", "other"):
        rollout = rollouts.rollout(name)
    for changed in (cluster, addon, rollout):
        assert woken(limited, sink, changed) == ["next", "other"]
    elsewhere = {**cluster, "metadata": {**cluster["metadata"], "namespace": "elsewhere"}}
    assert woken(limited, sink, elsewhere) == []


def test_changes_that_follow_at_once_become_one_event(rollouts: Rollouts, sink: EventReceiver) -> None:
    rollouts.fleet(main=1)
    rollouts.rollout()
    event = change_event(rollouts.client.get(CLUSTER, rollouts.key("main-0")), "update", source="/test")
    handle, before = catalog.handler("rollout_wake"), rollouts.client.requests
    assert handle(rollouts.clients, event).retry_after is None
    assert rollouts.client.requests - before == 1
    for _ in range(2):
        assert 0 < (handle(rollouts.clients, event).retry_after or 0) <= function.PAUSE
    assert rollouts.client.requests - before == 1
    assert len(sink.received) == 1


def test_woken_rollout_looks_at_its_clusters_although_it_was_done(
    rollouts: Rollouts, sink: EventReceiver, kubeconfig: Path
) -> None:
    rollouts.fleet(NEW, main=1)
    rollouts.rollout()
    rollouts.reconcile()
    late = rollouts.cluster("late")
    assert woken(rollouts.clients, sink, late) == ["next"]
    ((_, event, _),) = sink.received
    limited = as_function(rollouts.client, kubeconfig, "cluster_rollout")
    assert catalog.handler("cluster_rollout")(limited, event).status == 202
    assert rollouts.with_class(NEW) == ["late", "main-0"]
