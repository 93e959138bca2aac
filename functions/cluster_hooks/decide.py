"""Decides the response to a runtime hook from the Cluster and its ClusterAddon, as a pure function.

A request only selects a Cluster, because anyone who reaches the Service can send requests. The objects in the API
server determine whether to wait, for which objects and since when.

Before a deletion, charts are uninstalled if their HelmReleaseProxies request this.

`addon_apply` applies the addons of a Cluster's class by itself. Hooks only trigger it, and block Cluster API until the
ClusterAddon's status reports success or a deadline has passed: nothing is blocked forever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.addons.status import is_removal_requested
from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.api.hooks import (
    BEFORE_CLUSTER_DELETE,
    CLEANED_UP,
    WAIT_ANNOTATION,
    HookDeadlines,
    HookWait,
    cleanup_enabled,
    cleanup_wait,
    refers_to,
)
from shared.effects import Delete, would_change
from shared.helm_proxies.cluster_deletion import uninstallation
from shared.kube import Object, deleting, dig
from shared.releases.naming import ReleaseName
from shared.releases.stages import AFTER_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED, BEFORE_CLUSTER_UPGRADE

RETRY = 10
"""Seconds after which Cluster API calls a blocking hook again."""


@dataclass(frozen=True)
class HookDecision:
    """The outcome of a hook, with the patch of the ClusterAddon.

    `continue` lets Cluster API continue, `overdue` does so because the deadline has passed, and `block` makes Cluster
    API call the hook again later. `event_suffix` is part of the name of the event about an overdue wait, so that there
    is one event for each wait.
    """

    outcome: Literal["continue", "block", "overdue"]
    message: str
    patch: Object | None = None
    event_suffix: str = ""
    deletions: tuple[Delete, ...] = ()
    warning: str = ""
    """The message of a Kubernetes event about the Cluster."""


def decide(
    hook: str,
    cluster: Object | None,
    addon: Object | None,
    now: datetime,
    deadlines: HookDeadlines,
    releases: Sequence[Object] = (),
) -> HookDecision:
    """Returns the decision on a call of the hook named `hook`; a hook blocks until its deadline in `deadlines`.

    `releases` are the HelmReleaseProxies of a Cluster that are uninstalled before it is deleted.
    """
    if addon is not None and cluster is not None and not refers_to(addon, cluster):
        addon = None
    if cluster is None or (addon is None and not releases):
        return HookDecision("continue", "the Cluster has no addons")
    may_block = hook in (BEFORE_CLUSTER_UPGRADE, BEFORE_CLUSTER_DELETE)
    if cluster_api.is_paused(cluster):
        return HookDecision("block" if may_block else "continue", "the Cluster is paused")
    if hook == BEFORE_CLUSTER_DELETE and not deleting(cluster):
        return HookDecision("block", "the Cluster is not being deleted")
    if hook != BEFORE_CLUSTER_DELETE and deleting(cluster):
        return HookDecision("continue", "the Cluster is being deleted")
    charts = uninstallation(cluster, releases, now)
    if charts.awaited:
        return HookDecision("block", charts.progress, deletions=charts.deletions)
    if addon is None:
        decision = HookDecision("continue", "the Cluster has no addons")
    else:
        decision = _DECISIONS[hook](cluster, addon, now, deadlines)
    return replace(decision, warning=charts.warning) if charts.overdue else decision


def _after_control_plane_initialized(
    _cluster: Object, addon: Object, _now: datetime, _deadlines: HookDeadlines
) -> HookDecision:
    """Requests the first reconciliation of the addons; never blocks."""
    if dig(addon, "spec.clusterStack") or dig(addon, "spec.hook"):
        return HookDecision("continue", "the addons are already being applied")
    return HookDecision(
        "continue", "the first rollout of the addons is requested", {"spec": {"hook": AFTER_CONTROL_PLANE_INITIALIZED}}
    )


def _before_cluster_upgrade(cluster: Object, addon: Object, now: datetime, deadlines: HookDeadlines) -> HookDecision:
    """Blocks the upgrade until the addons of the new class are applied."""
    name = _stack_name(cluster)
    if name is None:
        return HookDecision("continue", "the class of the Cluster does not belong to a cluster stack")
    if is_removal_requested(cluster):
        return HookDecision("continue", "the addons are removed", _clear_wait(addon))
    if dig(addon, "spec.clusterStack") == name and dig(addon, "status.ready") is True:
        return HookDecision("continue", f"the addons of {name} are applied", _clear_wait(addon))
    version = dig(cluster, "spec.topology.version", "")
    wait = HookWait(BEFORE_CLUSTER_UPGRADE, f"{name}/{version}", now)
    return _block(addon, wait, deadlines.upgrade, f"the addons of {name} are not ready: {_obstacle(addon)}")


def _after_cluster_upgrade(cluster: Object, addon: Object, _now: datetime, _deadlines: HookDeadlines) -> HookDecision:
    """Requests a reconciliation of the addons; never blocks."""
    if _stack_name(cluster) is None:
        return HookDecision("continue", "the class of the Cluster does not belong to a cluster stack")
    # Keeps the recorded wait, because otherwise repeated calls could restart it forever.
    patch = {"spec": {"hook": AFTER_CLUSTER_UPGRADE}}
    return HookDecision(
        "continue", "the addons are to be reconciled again", patch if would_change(addon, patch) else None
    )


def _before_cluster_delete(cluster: Object, addon: Object, now: datetime, deadlines: HookDeadlines) -> HookDecision:
    """Blocks the deletion until `addon_cleanup` has cleaned up the workload cluster."""
    if not cleanup_enabled(cluster):
        return HookDecision("continue", "an annotation of the Cluster disables the clean-up")
    if is_true(dig(addon, "status.conditions"), CLEANED_UP):
        return HookDecision("continue", "the workload cluster is cleaned up")
    wait = cleanup_wait(cluster, now)
    progress = dig(get_condition(dig(addon, "status.conditions"), CLEANED_UP), "message") or "not started yet"
    request = {"spec": {"hook": BEFORE_CLUSTER_DELETE}}
    message = f"clean-up of the workload cluster: {progress}"
    return _block(addon, wait, deadlines.delete, message, request, earliest=cluster_api.deleted_at(cluster))


_DECISIONS: Mapping[str, Callable[[Object, Object, datetime, HookDeadlines], HookDecision]] = {
    AFTER_CONTROL_PLANE_INITIALIZED: _after_control_plane_initialized,
    BEFORE_CLUSTER_UPGRADE: _before_cluster_upgrade,
    AFTER_CLUSTER_UPGRADE: _after_cluster_upgrade,
    BEFORE_CLUSTER_DELETE: _before_cluster_delete,
}


def _block(
    addon: Object,
    wait: HookWait,
    limit: timedelta,
    message: str,
    request: Mapping[str, Any] | None = None,
    *,
    earliest: datetime | None = None,
) -> HookDecision:
    """Blocks until `limit` after the first call. Patches the addon with `request` and the time of the first call."""
    recorded = HookWait.load(addon)
    patch = dict(request or {})
    if not wait.continues(recorded, earliest=earliest):
        patch["metadata"] = {"annotations": {WAIT_ANNOTATION: wait.dump()}}
    elif recorded is not None and wait.since - recorded.since >= limit:
        message = f"no longer blocked after {limit.total_seconds():g} s: {message}"
        return HookDecision("overdue", message, event_suffix=f"{wait.hook.lower()}-{recorded.since:%Y%m%d%H%M%S}")
    return HookDecision("block", message, patch if would_change(addon, patch) else None)


def _obstacle(addon: Object) -> str:
    """Returns why the addons are not ready, as `addon_apply` reports it.

    A Ready that is True belongs to the previous class, because `addon_apply` has not observed the new class yet.
    """
    ready = get_condition(dig(addon, "status.conditions"), "Ready") or {}
    message = ready.get("message") or "their rollout has not begun"
    return str(message if ready.get("status") != "True" else "their rollout has not begun")


def _stack_name(cluster: Object) -> str | None:
    name = cluster_api.class_name(cluster)
    return name if name and ReleaseName.from_class_name(name) else None


def _clear_wait(addon: Object) -> Object | None:
    """Returns the patch that removes a recorded wait, so that a later wait for the same target starts from zero."""
    recorded = dig(addon, ("metadata", "annotations", WAIT_ANNOTATION))
    return {"metadata": {"annotations": {WAIT_ANNOTATION: None}}} if recorded is not None else None
