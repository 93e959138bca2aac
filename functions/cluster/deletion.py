"""Deletes a Cluster's objects in order: workers, control plane, infrastructure, its own Secrets, then the finalizer.

Charts are uninstalled first if their HelmReleaseProxies request this.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api.conditions import get_condition, rfc3339
from shared.api.core import core_deadline
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    HELM_RELEASE_PROXY,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
    SECRET,
)
from shared.clients import Clients
from shared.effects import Delete, RemoveFinalizer
from shared.helm_proxies import cluster_deletion
from shared.kube import Object, Resource, deleting, dig, has_finalizer, key_of, owned_by
from shared.references import NOT_ALLOWED, NOT_SERVED
from shared.runtime import KubernetesEvent

from .descendants import DESCENDANTS, Descendants, machines, selector, served_as
from .merge import enumerated
from .observed import Observed
from .references import adopt, check_reference
from .status import FINALIZER, ClusterStatusBuilder

DELETION_RETRY = 5.0
"""Seconds until the next reconciliation."""
_HOOK = "WaitingForBeforeDeleteHook"
_CONTROL_PLANE, _INFRASTRUCTURE = "WaitingForControlPlaneDeletion", "WaitingForInfrastructureDeletion"


@dataclass(frozen=True)
class DeleteSecrets:
    """Effect: deletes the Secrets that the Cluster owns. Lists them only now, because nothing before needs them."""

    cluster: Object

    def execute(self, clients: Clients) -> None:
        """Sends the deletions."""
        for secret in clients.management.list(SECRET, key_of(self.cluster).namespace, selector=selector(self.cluster)):
            if owned_by(secret, self.cluster):
                Delete(SECRET, secret).execute(clients)


def waits_for_reference(observed: Observed) -> bool:
    """Returns whether a referenced object is all that the deletion waits for.

    The condition shows that the earlier steps are complete. The function verifies this once the object is gone.
    """
    cluster = observed.cluster or {}
    condition = get_condition(dig(cluster, "status.conditions"), "Deleting") or {}
    awaited = {_CONTROL_PLANE: observed.control_plane, _INFRASTRUCTURE: observed.infrastructure}
    found = awaited.get(condition.get("reason", ""))
    is_current = condition.get("observedGeneration") == dig(cluster, "metadata.generation")
    if found is None or not is_current or observed.core != "none":
        return False
    return deleting(check_reference(cluster, found).object or {})


def reconcile_deletion(builder: ClusterStatusBuilder, observed: Observed) -> None:
    """Adds the next deletions to the decision, or a condition with the objects that block the deletion."""
    if not has_finalizer(builder.cluster, FINALIZER):
        return
    if observed.failure:
        _wait(builder, "InternalError", observed.failure)
        return
    if observed.descendants is None and not waits_for_reference(observed):
        builder.waits.append(0.0)
        return
    if observed.core in ("none", "gone") and _waits_for_charts(builder, observed):
        return
    pending = _pending(observed, observed.descendants or {})
    if pending:
        for resource, objects in pending.items():
            own = [one for one in objects if owned_by(one, builder.cluster) and not deleting(one)]
            builder.effects += [Delete(served_as(resource, one), one) for one in own]
        _wait(builder, "WaitingForWorkersDeletion", _format_pending(pending))
        return
    for found, reason in (
        (observed.control_plane, _CONTROL_PLANE),
        (observed.infrastructure, _INFRASTRUCTURE),
    ):
        if found.reason == NOT_ALLOWED:
            continue  # the object belongs to another Cluster or to no provider
        if found.state == "failed":
            hint = "; the deletion continues once the kind is served, or its CRD is deleted"
            hint = hint if found.reason == NOT_SERVED else ""
            _wait(builder, found.reason or "InternalError", found.error + hint)
            return
        if found.object is not None and found.resource is not None:
            if not owned_by(found.object, builder.cluster):
                adopt(builder, found)  # only owned objects are deleted, so it is adopted first
            elif not deleting(found.object):
                builder.effects.append(Delete(found.resource, found.object))
            _wait(builder, reason, f"Waiting for {found.kind} to be deleted")
            return
    builder.effects += [DeleteSecrets(builder.cluster), RemoveFinalizer(CLUSTER, builder.cluster, FINALIZER)]
    builder.set("Deleting", "True", "DeletionCompleted", "Deletion completed")


def wait_for_core(builder: ClusterStatusBuilder) -> str:
    """Sets the condition of a deletion that Cluster API core has not observed yet. Returns the message."""
    until = rfc3339(core_deadline(builder.cluster) or builder.now)
    message = f"Waiting until {until} for Cluster API core, which managed this Cluster, to observe its deletion"
    builder.set("Deleting", "True", "WaitingForClusterAPI", message)
    return message


def _waits_for_charts(builder: ClusterStatusBuilder, observed: Observed) -> bool:
    """Returns whether charts have to be uninstalled first, and has them uninstalled."""
    releases = (observed.descendants or {}).get(HELM_RELEASE_PROXY, ())
    found = cluster_deletion.uninstallation(builder.cluster, releases, builder.now)
    if found.awaited:
        builder.effects += found.deletions
        _wait(builder, _HOOK, found.progress)
    elif found.overdue:
        builder.kubernetes_events.append(
            KubernetesEvent(cluster_deletion.NOT_UNINSTALLED, found.warning, "Warning", once=True)
        )
    return bool(found.awaited)


def _wait(builder: ClusterStatusBuilder, reason: str, message: str) -> None:
    builder.set("Deleting", "True", reason, message)
    builder.waits.append(DELETION_RETRY)


def _pending(observed: Observed, descendants: Descendants) -> dict[Resource, list[Object]]:
    """Returns the objects to delete first. Machines of a control plane without an object of its own come last."""
    pending = {resource: list(descendants.get(resource, ())) for resource in DESCENDANTS}
    standalone = observed.control_plane.state == "unreferenced"
    first = machines(descendants, control_plane=True) if standalone else []
    pending[MACHINE] = [*machines(descendants, control_plane=False), *first]
    return {resource: objects for resource, objects in pending.items() if objects}


def _format_pending(pending: dict[Resource, list[Object]]) -> str:
    left = {MACHINE: tuple(pending.get(MACHINE, ()))}
    groups = {
        "ClusterAddons": pending.get(CLUSTER_ADDON, []),
        "Control plane Machines": machines(left, control_plane=True),
        "MachineDeployments": pending.get(MACHINE_DEPLOYMENT, []),
        "MachineSets": pending.get(MACHINE_SET, []),
        "MachinePools": pending.get(MACHINE_POOL, []),
        "Worker Machines": machines(left, control_plane=False),
    }
    lines = []
    for title, members in groups.items():
        names = sorted(obj["metadata"]["name"] for obj in members)
        if names:
            lines.append(f"* {title}: {enumerated(names, 5)}")
    return "\n".join(lines)
