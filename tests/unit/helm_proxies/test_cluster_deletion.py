"""Which releases a Cluster's deletion waits for, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster.decide import decide as decide_cluster
from functions.cluster.observed import Observed
from functions.cluster.status import FINALIZER
from functions.cluster_hooks.decide import decide as decide_hook
from shared.api.conditions import get_condition
from shared.api.core import CoreState
from shared.api.hooks import BEFORE_CLUSTER_DELETE, HookDeadlines
from shared.api.resources import HELM_RELEASE_PROXY, MACHINE
from shared.effects import Delete, RemoveFinalizer
from shared.helm_proxies.cluster_deletion import is_uninstalled_first, uninstallation
from shared.kube import Object

DELETED = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAUSED = {"cluster.x-k8s.io/paused": ""}


def cluster(**metadata: Any) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": "demo",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
            "finalizers": [FINALIZER],
            "deletionTimestamp": "2026-01-01T12:00:00Z",
            **metadata,
        },
        "spec": {},
    }


def release(
    name: str = "web", timeout: str | None = None, *, deleting: bool = False, message: str = "", **spec: Any
) -> Object:
    policy = {"policy": "Uninstall"} | ({"timeout": timeout} if timeout else {})
    conditions = [{"type": "Ready", "status": "False" if message else "True", "message": message}]
    deleted = {"deletionTimestamp": "2026-01-01T12:00:01Z"} if deleting else {}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, **deleted},
        "spec": {"clusterRef": {"name": "demo"}, "clusterDeletion": policy, **spec},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(release(), True, id="requested"),
        pytest.param(release(clusterDeletion=None), False, id="by default"),
        pytest.param(release(clusterDeletion={"policy": "Leave"}), False, id="left"),
        pytest.param(release(reconcileStrategy="Continuous"), True, id="continuous"),
        pytest.param(release(reconcileStrategy="InstallOnce"), False, id="installed once"),
        pytest.param({**release(), "metadata": {"annotations": PAUSED}}, False, id="paused"),
    ],
)
def test_release_is_uninstalled_first_on_request(found: Object, wanted: bool) -> None:
    assert is_uninstalled_first(found) is wanted


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        pytest.param(None, 600, id="default"),
        pytest.param("90s", 90, id="given"),
        pytest.param("0s", 0, id="no wait"),
        pytest.param("-5m", 0, id="negative"),
        pytest.param("999h", 24 * 3600, id="longer than a day"),
        pytest.param("soon", 600, id="no duration"),
    ],
)
def test_wait_ends(timeout: str | None, seconds: int) -> None:
    end = DELETED + timedelta(seconds=seconds)
    [web] = uninstallation(cluster(), [release(timeout=timeout)], end).overdue
    assert web["metadata"]["name"] == "web"
    before = uninstallation(cluster(), [release(timeout=timeout)], end - timedelta(seconds=1))
    assert (len(before.awaited), before.overdue, before.until) == (1, (), end)


def test_progress_names_releases_with_their_messages() -> None:
    found = [release(f"r{n}") for n in range(9, 2, -1)]
    found += [release("r2", "1h", deleting=True, message="* ClusterAvailable: no\n  route"), release("r1", "1s")]
    result = uninstallation(cluster(), found, DELETED + timedelta(minutes=1))
    assert result.progress.splitlines() == [
        "Waiting until 2026-01-01T13:00:00Z for the HelmReleaseProxies of this Cluster to uninstall their charts:",
        "* r2: * ClusterAvailable: no route",
        *(f"* r{n}" for n in range(3, 7)),
        "* and 3 more",
    ]
    assert [deletion.obj["metadata"]["name"] for deletion in result.deletions] == [f"r{n}" for n in range(3, 10)]
    assert result.warning.endswith("because their timeout has passed: r1")


# -- without Cluster API core -----------------------------------------------------------------------------------------


def observed(*releases: Object, core: CoreState = "none", **metadata: Any) -> Observed:
    machine = {
        "apiVersion": MACHINE.api_version,
        "kind": "Machine",
        "metadata": {"name": "m", "uid": "m", "ownerReferences": [{"kind": "Cluster", "uid": "u", "name": "demo"}]},
    }
    return Observed(cluster(**metadata), descendants={HELM_RELEASE_PROXY: releases, MACHINE: (machine,)}, core=core)


def deletions(effects: Any) -> list[str]:
    return [one.obj["metadata"]["name"] for one in effects if isinstance(one, Delete)]


def test_charts_are_uninstalled_before_anything_is_deleted() -> None:
    now = DELETED + timedelta(minutes=1)
    for releases, started in (((release(),), ["web"]), ((release(deleting=True),), [])):
        decision = decide_cluster(observed(*releases), now)
        assert deletions(decision.effects) == started
        assert decision.requeue_after == 5.0
        deleting = get_condition((decision.status or {})["conditions"], "Deleting") or {}
        assert deleting["reason"] == "WaitingForBeforeDeleteHook"
        assert "* web" in deleting["message"]


@pytest.mark.parametrize("releases", [(), (release(deleting=True),)], ids=["uninstalled", "overdue"])
def test_deletion_continues(releases: tuple[Object, ...]) -> None:
    decision = decide_cluster(observed(*releases), DELETED + timedelta(minutes=10))
    assert deletions(decision.effects) == ["m"]
    warnings = [event.message for event in decision.kubernetes_events if event.reason == "ChartsNotUninstalled"]
    assert [message.endswith("passed: web") for message in warnings] == [True] * len(releases)


def test_cluster_goes_with_overdue_releases_left() -> None:
    found = Observed(cluster(), descendants={HELM_RELEASE_PROXY: (release(deleting=True),)})
    decision = decide_cluster(found, DELETED + timedelta(hours=1))
    assert any(isinstance(effect, RemoveFinalizer) for effect in decision.effects)


def test_core_that_allows_the_deletion_is_not_held() -> None:
    allowed = {"annotations": {"runtime.cluster.x-k8s.io/ok-to-delete": ""}}
    decision = decide_cluster(observed(release(), core="live", **allowed), DELETED)
    assert deletions(decision.effects) == ["m"]


# -- beside Cluster API core ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("addon", [None, {"metadata": {"name": "cluster-addon-demo"}}], ids=["no addons", "addons"])
def test_hook_blocks_until_charts_are_uninstalled(addon: Object | None) -> None:
    deadlines, now = HookDeadlines(), DELETED + timedelta(minutes=1)
    blocked = decide_hook(BEFORE_CLUSTER_DELETE, cluster(), addon, now, deadlines, [release()])
    assert (blocked.outcome, deletions(blocked.deletions), blocked.patch) == ("block", ["web"], None)
    assert "* web" in blocked.message
    over = decide_hook(
        BEFORE_CLUSTER_DELETE, cluster(), addon, now + timedelta(minutes=9), deadlines, [release(deleting=True)]
    )
    assert (over.outcome, over.deletions) == ("continue" if addon is None else "block", ())
    assert over.warning.endswith("passed: web")
    done = decide_hook(BEFORE_CLUSTER_DELETE, cluster(), addon, now, deadlines)
    assert (done.outcome, done.warning) == (over.outcome, "")


@pytest.mark.parametrize(
    "metadata", [{"deletionTimestamp": None}, {"annotations": PAUSED}], ids=["not being deleted", "paused"]
)
def test_hook_uninstalls_nothing(metadata: Object) -> None:
    decision = decide_hook(BEFORE_CLUSTER_DELETE, cluster(**metadata), None, DELETED, HookDeadlines(), [release()])
    assert (decision.outcome, decision.deletions) == ("block", ())
