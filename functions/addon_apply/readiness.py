"""Reports whether applied objects are ready, and checks objects again that were not ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.addons.context import AwaitingReadiness
from shared.applier import inventory
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import InventoryEntry
from shared.applier.live import recheck_readiness
from shared.applier.outcome import format_waiting
from shared.applier.policy import Policy
from shared.clients import Clients
from shared.effects import Results
from shared.kube import ApiError, Object, dig
from shared.releases.missing_assets import DOWNLOADED
from shared.runtime import Decision

from .status import BROKEN_RETRY, CLUSTER_RETRY, READY_RETRY, AddonStatusBuilder

_ALL = "all objects are ready"
_WORKLOADS = {("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet")}
"""The kinds whose objects can become unhealthy after a sync; each resync reads them."""


def can_lose_health(addon: Object, policy: Policy) -> bool:
    """Returns whether ready addons have objects whose health a resync checks."""
    ready = policy.wait and dig(addon, "status.ready") is True
    return ready and any(map(_is_workload, inventory.load(dig(addon, "status.resources"))))


def to_look_at(entries: Sequence[InventoryEntry]) -> list[InventoryEntry]:
    """Returns the entries; marks those whose health a resync checks as waiting, so that `recheck` reads them."""
    return [replace(entry, waiting="look") if _is_workload(entry) else entry for entry in entries]


def _is_workload(entry: InventoryEntry) -> bool:
    return (entry.group, entry.kind) in _WORKLOADS


@dataclass(frozen=True)
class RecheckReadiness:
    """Effect: reads the objects that were not ready. Returns the inventory with the present wait of each object.

    For the first waiting workload, one more request finds a pod that does not start, for the message.
    """

    connection: ClusterConnection
    entries: Sequence[InventoryEntry]

    def execute(self, _clients: Clients) -> list[InventoryEntry]:
        quoted, entries = False, []
        for entry in self.entries:
            if entry.waiting:
                with_pods = not quoted and entry.group in ("apps", "batch")
                entry = recheck_readiness(self.connection.cluster, entry, with_pods=with_pods)
                quoted |= with_pods and bool(entry.waiting)
            entries.append(entry)
        return entries


def recheck(builder: AddonStatusBuilder, awaited: AwaitingReadiness, results: Results | None) -> Decision:
    """Checks the readiness of objects that were not ready, and reports the result."""
    builder.set_true(DOWNLOADED)
    if results is not None and isinstance(results.error, ApiError):
        return replace(_report_unreachable(builder, results.error), reports=results.error)
    if results is not None and (rechecked := results.of(RecheckReadiness)):
        return _report_recheck(builder, awaited, rechecked[-1])
    return Decision((*builder.finalizer(), RecheckReadiness(awaited.connection, awaited.inventory)))


def _report_recheck(
    builder: AddonStatusBuilder, awaited: AwaitingReadiness, entries: Sequence[InventoryEntry]
) -> Decision:
    """Reports which objects are ready now."""
    was_ready = dig(builder.obj, "status.ready") is True
    if awaited.policy.wait and not was_ready and not any(entry.waiting for entry in entries):
        builder.add_event("AddonsReady", f"{builder.release}: {_ALL}")
    return report_readiness(builder, awaited.policy, entries, _ALL)


def _report_unreachable(builder: AddonStatusBuilder, error: ApiError) -> Decision:
    """Reports that the objects could not be read."""
    message = f"the workload API server does not answer: {error}"
    builder.set_false("ClusterReady", "ControlPlaneNotReady", message, event_type="Warning")
    return builder.decision(requeue_after=CLUSTER_RETRY, message=message, ready=False)


def report_readiness(
    builder: AddonStatusBuilder, policy: Policy, entries: Sequence[InventoryEntry], message: str, **fields: Any
) -> Decision:
    """Reports whether these entries are ready; if one is not, requeues and replaces `message`.

    `fields` are further fields of the status.
    """
    waiting = [entry for entry in entries if entry.waiting]
    requeue_after = None
    if waiting and policy.wait:
        message = f"{builder.release}: waiting for {format_waiting(waiting)}"
        builder.set_false("ObjectsReady", "WaitingForObjects", message, event_type="Normal", progress=True)
        requeue_after = READY_RETRY
        if builder.seconds_since("ObjectsReady") > policy.wait_timeout:
            message = f"{builder.release}: not ready after {policy.wait_timeout:g} s: {format_waiting(waiting)}"
            builder.set_false("ObjectsReady", "ObjectsNotReady", message, "Warning", event_type="Warning")
            requeue_after = BROKEN_RETRY
    elif policy.wait:
        builder.set_true("ObjectsReady")
    else:
        builder.remove("ObjectsReady")
    ready, resources = requeue_after is None, inventory.dump(entries)
    return builder.decision(requeue_after=requeue_after, message=message, ready=ready, resources=resources, **fields)
