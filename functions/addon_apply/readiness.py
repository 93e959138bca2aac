"""Whether what is applied is ready, and another look at what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.applier import inventory
from shared.applier.inventory import Entry
from shared.applier.live import look_again
from shared.applier.outcome import told_waiting
from shared.applier.policy import Policy
from shared.applier.reach import Reached
from shared.clients import Clients
from shared.effects import Results
from shared.kube import ApiError
from shared.runtime import Decision, Notice

from .case import Awaited
from .status import AddonStatus
from .waits import BROKEN_RETRY, CLUSTER_RETRY, READY_RETRY, finalizer

_ALL = "all objects are ready"


@dataclass(frozen=True)
class LookAgain:
    """Returns these entries with what each is waiting for now."""

    reached: Reached
    entries: Sequence[Entry]

    def execute(self, _clients: Clients) -> list[Entry]:
        return [look_again(self.reached.workload, entry) if entry.waiting else entry for entry in self.entries]


def look(verdict: AddonStatus, awaited: Awaited) -> Decision:
    return Decision((*finalizer(verdict.obj), LookAgain(awaited.reach, awaited.known)))


def looked(verdict: AddonStatus, awaited: Awaited, decision: Decision, results: Results) -> Decision:
    entries = next((value for value in results.values if isinstance(value, list)), None)
    if entries is not None:
        if awaited.policy.wait and not any(entry.waiting for entry in entries):
            verdict.notices.append(Notice("AddonsReady", f"{verdict.release}: {_ALL}"))
        return told(verdict, awaited.policy, replace(decision, message=_ALL), entries)
    if isinstance(results.error, ApiError):
        message, results.error = f"the workload API server does not answer: {results.error}", None
        verdict.false("ClusterReady", "ControlPlaneNotReady", message, tell="Warning")
        return replace(decision, status=verdict.status(ready=False), requeue=CLUSTER_RETRY, message=message)
    return decision


def told(
    verdict: AddonStatus, policy: Policy, decision: Decision, entries: Sequence[Entry], **fields: object
) -> Decision:
    """The decision with what is to be said of these entries; its message stands where nothing is waited for."""
    waiting = [entry for entry in entries if entry.waiting]
    requeue, message = None, decision.message
    if waiting and policy.wait:
        message = f"{verdict.release}: waiting for {told_waiting(waiting)}"
        verdict.false("ObjectsReady", "WaitingForObjects", message, tell="Normal", progress=True)
        requeue = READY_RETRY
        if verdict.since("ObjectsReady") > policy.wait_timeout:
            message = f"{verdict.release}: not ready after {policy.wait_timeout:g} s: {told_waiting(waiting)}"
            verdict.false("ObjectsReady", "ObjectsNotReady", message, "Warning", tell="Warning")
            requeue = BROKEN_RETRY
    elif policy.wait:
        verdict.true("ObjectsReady")
    else:
        verdict.drop("ObjectsReady")
    status = verdict.status(ready=requeue is None, resources=inventory.dump(entries), **fields)
    return replace(decision, status=status, notices=tuple(verdict.notices), requeue=requeue, message=message)
