"""Which Clusters a ClusterRollout moves, when a Cluster is ready, and what the conditions say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.cluster_rollout.decide import SAFETY, WAIT_RETRY, WRITE_RETRY, decide
from functions.cluster_rollout.triggers import is_reconciled
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_ROLLOUT
from shared.cluster_rollouts import MoveClusters, Observed, has_failed, move, plan, why_unready
from shared.effects import Results
from shared.event import change_event
from shared.kube import ApiError, Object, dig, key_of
from tests.support.objects import manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "docker-ferrol-1-36-v1", "docker-ferrol-1-36-v2"


def condition(type_: str, status: str = "True", observed: int | None = 3, **more: str) -> Object:
    return {"type": type_, "status": status, **({"observedGeneration": observed} if observed else {}), **more}


READY = (condition("Available"), condition("TopologyReconciled"))


def cluster(
    name: str = "one", class_name: str = OLD, *conditions: Object, version: str = "", **metadata: Any
) -> Object:
    topology = {"classRef": {"name": class_name}, **({"version": version} if version else {})}
    status = {"conditions": list(conditions or READY)}
    return manifest(
        CLUSTER, name, "fleet", metadata={"generation": 3, **metadata}, spec={"topology": topology}, status=status
    )


def changed(seconds: int, field: str = "f:topology") -> Object:
    """Returns the entry of a field manager that changed a field of the spec so many seconds ago."""
    time = (NOW - timedelta(seconds=seconds)).isoformat()
    return {"manager": "any", "time": time, "fieldsV1": {"f:spec": {field: {}}}}


def unreconciled(reason: str, observed: int = 3) -> Object:
    return cluster("one", OLD, READY[0], condition("TopologyReconciled", "False", observed, reason=reason))


def addon(name: str = "one", applied: str = OLD, ready: str = "True", **more: str) -> Object:
    status = {"conditions": [condition("Ready", ready, None, reason="" if ready == "True" else "Failed", **more)]}
    return manifest(CLUSTER_ADDON, f"cluster-addon-{name}", "fleet", spec={"clusterStack": applied}, status=status)


def rollout(
    name: str = "next", to: str = NEW, *, version: str = "", selector: Object | None = None, **spec: Any
) -> Object:
    topology = {"classRef": {"name": to}, **({"version": version} if version else {})}
    wanted = {"clusterSelector": selector or {}, "topology": topology, "rolloutStrategy": {}, **spec}
    return manifest(CLUSTER_ROLLOUT, name, "fleet", metadata={"generation": 1}, spec=wanted)


def observed(rollout_: Object, *clusters: Object, **more: Any) -> Observed:
    addons = [addon(one["metadata"]["name"], one["spec"]["topology"]["classRef"]["name"]) for one in clusters]
    return Observed(rollout_, clusters, {key_of(one): one for one in addons}, **more)


@pytest.mark.parametrize(
    ("one", "its_addon", "reason"),
    [
        pytest.param(cluster(), addon(), "", id="ready"),
        pytest.param(cluster("one", OLD, condition("Available")), addon(), "", id="no topology controller"),
        pytest.param(cluster("one", OLD, condition("Ready", observed=None)), addon(), "", id="before Cluster API 1.9"),
        pytest.param(cluster("one", "own-class"), None, "", id="class of no cluster stack"),
        pytest.param(cluster(), None, "it has no ClusterAddon yet", id="no addon"),
        pytest.param(
            cluster("one", NEW), addon(), f"the addons of {NEW} are not applied yet", id="addons of the former class"
        ),
        pytest.param(cluster(), addon(ready="False"), "ClusterAddon: Ready: Failed", id="addons failed"),
        pytest.param(
            cluster("one", OLD, condition("Available"), condition("TopologyReconciled", observed=2)),
            addon(),
            "TopologyReconciled does not reflect the current spec yet",
            id="topology of the former spec",
        ),
        pytest.param(
            cluster(
                "one", OLD, condition("Available"), condition("TopologyReconciled", "False", reason="X", message="y")
            ),
            addon(),
            "TopologyReconciled: X: y",
            id="topology not reconciled",
        ),
        pytest.param(
            cluster("one", OLD, *READY, condition("RollingOut", reason="X", message="y")),
            addon(),
            "RollingOut: X: y",
            id="Machines are being replaced",
        ),
        pytest.param(
            cluster("one", OLD, condition("Available", "Unknown", reason="X")),
            addon(),
            "Available: X",
            id="not available",
        ),
        pytest.param(
            cluster("one", OLD, condition("Paused")),
            addon(),
            "no program has set the condition Available yet",
            id="not reconciled",
        ),
    ],
)
def test_readiness_of_a_cluster(one: Object, its_addon: Object | None, reason: str) -> None:
    assert why_unready(one, its_addon) == reason


@pytest.mark.parametrize(
    ("wanted", "one", "left"),
    [
        pytest.param(rollout(), cluster(), "", id="newer release"),
        pytest.param(rollout(to=OLD), cluster("one", NEW), f"its class {NEW} is newer", id="older release"),
        pytest.param(rollout(to=OLD, allowDowngrade=True), cluster("one", NEW), "", id="allowed"),
        pytest.param(
            rollout(to="docker-ferrol-1-9-v5"),
            cluster("one", "docker-ferrol-1-10-v1"),
            "its class docker-ferrol-1-10-v1 is newer",
            id="older Kubernetes minor version, compared as numbers",
        ),
        pytest.param(rollout(to="docker-other-1-35-v1"), cluster(), "", id="other stack"),
        pytest.param(rollout(to="docker-ferrol-1-36-v0-sha.abc"), cluster(), "", id="other channel has no order"),
        pytest.param(rollout(to="own-class"), cluster(), "", id="class of no cluster stack"),
        pytest.param(
            rollout(version="v1.36.1", allowDowngrade=True),
            cluster(version="v1.36.2"),
            "its Kubernetes version v1.36.2 is newer",
            id="Kubernetes is never downgraded",
        ),
        pytest.param(rollout(version="v1.36.2"), cluster(version="v1.36.1"), "", id="newer Kubernetes version"),
    ],
)
def test_downgrades_are_left_out(wanted: Object, one: Object, left: str) -> None:
    planned = plan(wanted, observed(wanted, one), NOW)
    assert planned.left.get("one", "") == left
    assert len(planned.moves) == (0 if left else 1)


def test_cluster_without_class_is_left_out() -> None:
    one = manifest(CLUSTER, "one", "fleet", spec={})
    assert plan(rollout(), Observed(rollout(), (one,)), NOW).left == {"one": "it has no class"}


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(cluster(annotations={PAUSED_ANNOTATION: ""}), id="paused"),
        pytest.param(cluster(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
    ],
)
def test_cluster_that_takes_no_part(one: Object) -> None:
    planned = plan(rollout(), observed(rollout(), one), NOW)
    assert (planned.targets, planned.moves, planned.left) == ((), (), {})


@pytest.mark.parametrize(
    ("selector", "waits"),
    [
        pytest.param({}, True, id="every Cluster"),
        pytest.param({"matchLabels": {"wave": "canary"}}, True, id="by label"),
        pytest.param({"matchLabels": {"wave": "main"}}, False, id="others"),
    ],
)
def test_cluster_of_two_rollouts_waits(selector: Object, waits: bool) -> None:
    one = cluster(labels={"wave": "canary"})
    planned = plan(rollout(), observed(rollout(), one, others=(rollout("rival", selector=selector),)), NOW)
    assert dict(planned.twice) == ({"one": "rival"} if waits else {})
    assert dict(planned.rollout.waiting) == ({"one": "ClusterRollout rival also selects it"} if waits else {})
    assert bool(planned.moves) != waits


def test_text_about_many_rollouts_of_a_cluster_is_short() -> None:
    rivals = tuple(rollout(f"rival-{number:04}", selector={}) for number in range(1_000))
    planned = plan(rollout(), observed(rollout(), cluster(), others=rivals), NOW)
    assert dict(planned.twice) == {"one": "rival-0000, rival-0001, rival-0002, and 997 more"}


def test_patch_has_the_shape_of_the_cluster() -> None:
    older = {**cluster(), "spec": {"topology": {"class": OLD}}}
    wanted = rollout(version="v1.36.2")
    assert move(wanted, older).patch == {"spec": {"topology": {"class": NEW, "version": "v1.36.2"}}}
    assert move(wanted, cluster()).patch == {"spec": {"topology": {"classRef": {"name": NEW}, "version": "v1.36.2"}}}


@pytest.mark.parametrize(
    ("one", "its_addon", "failed"),
    [
        pytest.param(cluster(), addon(), False, id="ready"),
        pytest.param(unreconciled("ReconcileFailed"), None, True, id="topology failed"),
        pytest.param(unreconciled("TopologyReconcileFailed"), None, True, id="topology failed, before Cluster API 1.9"),
        pytest.param(unreconciled("ReconcileFailed", 2), None, False, id="topology of the former spec failed"),
        pytest.param(unreconciled("ControlPlaneUpgradePending"), None, False, id="topology in progress"),
        pytest.param(cluster(), addon(ready="False", severity="Error"), True, id="addons failed"),
        pytest.param(cluster(), addon(ready="False", severity="Info"), False, id="addons in progress"),
        pytest.param(cluster(), None, False, id="no addon yet"),
    ],
)
def test_failure_is_not_progress(one: Object, its_addon: Object | None, failed: bool) -> None:
    assert has_failed(one, its_addon) is failed


CLOSED = {"windows": [{"schedule": "0 10 * * *", "duration": "4h"}]}
UNREADY = condition("Available", "False", reason="X")


@pytest.mark.parametrize(
    ("strategy", "state", "seconds"),
    [
        pytest.param(CLOSED, {}, 10 * 3600, id="until the window begins"),
        pytest.param(CLOSED, {"missing": frozenset({"fleet"})}, WAIT_RETRY, id="no class"),
        pytest.param({}, {"missing": frozenset({"fleet"})}, WAIT_RETRY, id="no class, and no window"),
        pytest.param({}, {"others": (rollout("rival"),)}, WAIT_RETRY, id="two ClusterRollouts"),
        pytest.param({"paused": True}, {}, SAFETY, id="paused"),
    ],
)
def test_next_look_at_a_cluster_that_waits(strategy: Object, state: Any, seconds: float) -> None:
    wanted = rollout(rolloutStrategy=strategy)
    assert decide(observed(wanted, cluster(), **state), NOW).requeue_after == seconds


@pytest.mark.parametrize(
    ("one", "seconds"),
    [
        pytest.param(cluster("one", NEW), None, id="done"),
        pytest.param(cluster("one", NEW, UNREADY), SAFETY, id="not ready yet"),
        pytest.param(
            cluster("one", NEW, *READY, condition("RollingOut", "False"), managedFields=[changed(1)]),
            10,
            id="just changed",
        ),
    ],
)
@pytest.mark.parametrize("strategy", [{}, CLOSED])
def test_next_look_at_a_moved_cluster(one: Object, strategy: Object, seconds: float | None) -> None:
    assert decide(observed(rollout(rolloutStrategy=strategy), one), NOW).requeue_after == seconds


def test_next_look_after_a_refused_change() -> None:
    results = Results([(MoveClusters(()), {"one": ApiError("denied the request: no", status=403)})])
    assert decide(observed(rollout(), cluster()), NOW, results).requeue_after == WRITE_RETRY


@pytest.mark.parametrize(
    ("conditions", "fields", "settling"),
    [
        pytest.param((condition("RollingOut", "False"),), [changed(9)], True, id="Machines may not follow yet"),
        pytest.param((condition("RollingOut", "False"),), [changed(11)], False, id="long ago"),
        pytest.param((condition("RollingOut", "False"),), [changed(11), changed(1)], True, id="the newest change"),
        pytest.param((condition("RollingOut", "False"),), [changed(1, "f:paused")], False, id="other field"),
        pytest.param((condition("RollingOut", "False"),), [], False, id="not recorded"),
        pytest.param((condition("Ready", observed=None),), [changed(1)], True, id="conditions without generation"),
        pytest.param((), [changed(1)], False, id="nothing reports about Machines"),
    ],
)
def test_cluster_settles_after_a_change(conditions: tuple[Object, ...], fields: list[Object], settling: bool) -> None:
    one = cluster("one", NEW, *READY, *conditions, managedFields=fields)
    planned = plan(rollout(), observed(rollout(), one), NOW)
    assert (planned.settling, planned.done) == (settling, not settling)
    assert dict(planned.unready) == ({"one": "its topology has just been changed"} if settling else {})


def test_wrong_window_is_reported() -> None:
    wanted = rollout(rolloutStrategy={"windows": [{"schedule": "0 25 * * *", "duration": "4h"}]})
    status = decide(observed(wanted, cluster()), NOW).status
    found = get_condition(dig(status, "conditions"), "RolloutStrategyAccepted") or {}
    assert (found["reason"], found["message"]) == ("InvalidWindow", "schedule: '25' is not a valid hour (0 to 23)")


def test_refused_changes_are_reported() -> None:
    state = observed(rollout(), cluster())
    results = Results([(MoveClusters(()), {"one": ApiError("denied the request: no", status=403)})])
    found = get_condition(dig(decide(state, NOW, results).status, "conditions"), "Ready") or {}
    assert (found["reason"], found["message"]) == ("ClusterUpdateFailed", "one: denied the request: no")


@pytest.mark.parametrize(
    ("change", "ready", "generation", "expected"),
    [
        ("update", "True", 1, True),
        ("update", "False", 1, False),
        ("update", "True", 2, False),
    ],
)
def test_rollout_that_is_reconciled(change: Any, ready: str, generation: int, expected: bool) -> None:
    status = {"conditions": [condition("Ready", ready, 1)]}
    obj = {**rollout(), "status": status}
    obj["metadata"] = {**obj["metadata"], "generation": generation}
    assert is_reconciled(obj, change_event(obj, change, source="/test"), NOW) is expected
