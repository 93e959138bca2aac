"""Whether what is applied is ready, and another look at what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.addons.context import AwaitingReadiness
from shared.applier import inventory
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import InventoryEntry
from shared.applier.live import recheck_readiness
from shared.applier.outcome import format_waiting
from shared.applier.policy import Policy
from shared.clients import Clients
from shared.effects import Results
from shared.kube import ApiError
from shared.runtime import Decision

from .status import AddonStatus
from .waits import BROKEN_RETRY, CLUSTER_RETRY, READY_RETRY, ensure_addon_finalizer

_ALL = "all objects are ready"


@dataclass(frozen=True)
class RecheckReadiness:
    """Returns these entries with what each is waiting for now."""

    reached: ClusterConnection
    entries: Sequence[InventoryEntry]

    def execute(self, _clients: Clients) -> list[InventoryEntry]:
        return [recheck_readiness(self.reached.cluster, entry) if entry.waiting else entry for entry in self.entries]


def recheck(builder: AddonStatus, awaited: AwaitingReadiness) -> Decision:
    return Decision((*ensure_addon_finalizer(builder.obj), RecheckReadiness(awaited.connection, awaited.inventory)))


def report_recheck(builder: AddonStatus, awaited: AwaitingReadiness, decision: Decision, results: Results) -> Decision:
    entries = next((value for value in results.values if isinstance(value, list)), None)
    if entries is not None:
        if awaited.policy.wait and not any(entry.waiting for entry in entries):
            builder.add_event("AddonsReady", f"{builder.release}: {_ALL}")
        return report_readiness(builder, awaited.policy, replace(decision, message=_ALL), entries)
    if isinstance(results.error, ApiError):
        message, results.error = f"the workload API server does not answer: {results.error}", None
        builder.set_false("ClusterReady", "ControlPlaneNotReady", message, event_type="Warning")
        return replace(decision, status=builder.status(ready=False), requeue_after=CLUSTER_RETRY, message=message)
    return decision


def report_readiness(
    builder: AddonStatus, policy: Policy, decision: Decision, entries: Sequence[InventoryEntry], **fields: object
) -> Decision:
    """The decision with what is to be said of these entries; its message stands where nothing is waited for."""
    waiting = [entry for entry in entries if entry.waiting]
    requeue_after, message = None, decision.message
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
    status = builder.status(ready=requeue_after is None, resources=inventory.dump(entries), **fields)
    return replace(
        decision,
        status=status,
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=requeue_after,
        message=message,
    )
