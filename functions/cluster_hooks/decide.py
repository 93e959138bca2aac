"""What to answer Cluster API, from the Cluster and its ClusterAddon as they are: pure, and the same in every process.

A call only says which Cluster it is about, since anybody who reaches the Service can call. What is waited for, and
since when, follows from what the Cluster itself says.

`addon_apply` brings a cluster to its class by itself. So hooks only wake it, and hold Cluster API back until what it
wrote says that it is done, or a deadline has passed: nothing is ever held back for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.api.hooks import (
    BEFORE_DELETE,
    CLEANED_UP,
    WAIT_ANNOTATION,
    HookWait,
    Limits,
    cleanup_enabled,
    cleanup_wait,
    refers_to,
)
from shared.effects import would_change
from shared.kube import Object, deleting, dig
from shared.releases.naming import ReleaseName
from shared.releases.stages import FIRST, UPGRADE, UPGRADED

RETRY = 10
"""Seconds after which Cluster API is to ask again."""


@dataclass(frozen=True)
class Reply:
    """`go` lets Cluster API go on, `block` has it ask again, `overdue` lets it go on although something is missing.

    `patch` is for the addon; `warned` names the event that tells of an overdue wait, so that it is told once.
    """

    outcome: Literal["go", "block", "overdue"]
    message: str
    patch: Object | None = None
    warned: str = ""


def decide(hook: str, cluster: Object | None, addon: Object | None, now: datetime, limits: Limits) -> Reply:
    if addon is None or cluster is None or not refers_to(addon, cluster):
        return Reply("go", "the Cluster has no addons")
    holds = hook in (UPGRADE, BEFORE_DELETE)
    if cluster_api.is_paused(cluster):
        return Reply("block" if holds else "go", "the Cluster is paused")
    if hook == BEFORE_DELETE and not deleting(cluster):
        return Reply("block", "the Cluster is not being deleted")
    if hook != BEFORE_DELETE and deleting(cluster):
        return Reply("go", "the Cluster is being deleted")
    return _DECISIONS[hook](cluster, addon, now, limits)


def _after_control_plane_initialized(_cluster: Object, addon: Object, _now: datetime, _limits: Limits) -> Reply:
    if dig(addon, "spec.clusterStack") or dig(addon, "spec.hook"):
        return Reply("go", "the addons are under way already")
    return Reply("go", "the addons are asked for", {"spec": {"hook": FIRST}})


def _before_cluster_upgrade(cluster: Object, addon: Object, now: datetime, limits: Limits) -> Reply:
    name = _stack(cluster)
    if name is None:
        return Reply("go", "the class names no cluster stack")
    if dig(addon, "spec.clusterStack") == name and dig(addon, "status.ready") is True:
        return Reply("go", f"the addons of {name} are applied", _forgotten(addon))
    version = dig(cluster, "spec.topology.version", "")
    wait = HookWait(UPGRADE, f"{name}/{version}", now)
    return _hold(addon, wait, limits.upgrade, f"the addons of {name} are not ready: {_obstacle(addon)}")


def _after_cluster_upgrade(cluster: Object, addon: Object, _now: datetime, _limits: Limits) -> Reply:
    if _stack(cluster) is None:
        return Reply("go", "the class names no cluster stack")
    # A wait that is recorded stays: whoever could end it by a call could make it begin anew for ever.
    patch = {"spec": {"hook": UPGRADED}}
    return Reply("go", "the addons are looked at again", patch if would_change(addon, patch) else None)


def _before_cluster_delete(cluster: Object, addon: Object, now: datetime, limits: Limits) -> Reply:
    if not cleanup_enabled(cluster):
        return Reply("go", "no clean-up is wanted")
    if is_true(dig(addon, "status.conditions"), CLEANED_UP):
        return Reply("go", "the workload cluster is cleaned up")
    wait = cleanup_wait(cluster, now)
    told = dig(get_condition(dig(addon, "status.conditions"), CLEANED_UP), "message") or "has not begun yet"
    asked = {"spec": {"hook": BEFORE_DELETE}}
    message = f"clean-up of the workload cluster: {told}"
    return _hold(addon, wait, limits.delete, message, asked, earliest=cluster_api.deleted_at(cluster))


_DECISIONS: Mapping[str, Callable[[Object, Object, datetime, Limits], Reply]] = {
    FIRST: _after_control_plane_initialized,
    UPGRADE: _before_cluster_upgrade,
    UPGRADED: _after_cluster_upgrade,
    BEFORE_DELETE: _before_cluster_delete,
}


def _hold(
    addon: Object,
    wait: HookWait,
    limit: timedelta,
    message: str,
    asked: Mapping[str, Any] | None = None,
    *,
    earliest: datetime | None = None,
) -> Reply:
    """Blocks from the first time on, which is recorded on the addon, until the limit."""
    begun = HookWait.load(addon)
    patch = dict(asked or {})
    if not wait.continues(begun, earliest=earliest):
        patch["metadata"] = {"annotations": {WAIT_ANNOTATION: wait.dump()}}
    elif begun is not None and wait.since - begun.since >= limit:
        message = f"let go after {limit.total_seconds():g} s: {message}"
        return Reply("overdue", message, warned=f"{wait.hook.lower()}-{begun.since:%Y%m%d%H%M%S}")
    return Reply("block", message, patch if would_change(addon, patch) else None)


def _obstacle(addon: Object) -> str:
    """What `addon_apply` says; nothing useful where it has not seen the new class yet."""
    ready = get_condition(dig(addon, "status.conditions"), "Ready") or {}
    message = ready.get("message") or "applying them has not begun yet"
    return str(message if ready.get("status") != "True" else "applying them has not begun yet")


def _stack(cluster: Object) -> str | None:
    name = cluster_api.class_name(cluster)
    return name if name and ReleaseName.from_class_name(name) else None


def _forgotten(addon: Object) -> Object | None:
    """The patch that ends a recorded wait, so that a later one for the same begins anew."""
    recorded = dig(addon, ("metadata", "annotations", WAIT_ANNOTATION))
    return {"metadata": {"annotations": {WAIT_ANNOTATION: None}}} if recorded is not None else None
