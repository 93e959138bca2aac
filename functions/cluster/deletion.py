"""Deletes a Cluster's objects in order: workers, control plane, infrastructure, its own Secrets, then the finalizer."""

from __future__ import annotations

from shared.api.conditions import rfc3339
from shared.api.core import core_deadline
from shared.api.resources import CLUSTER, MACHINE, SECRET
from shared.clients import NOT_ALLOWED, NOT_SERVED
from shared.effects import Delete, RemoveFinalizer
from shared.kube import Object, Resource, deleting, dig, has_finalizer, owned_by

from .observe import DESCENDANTS, Observed
from .references import adopt
from .scope import FINALIZER, Scope

CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
DELETION_RETRY = 5.0
"""Seconds until the next reconciliation."""

_TITLES = {
    "ClusterAddon": "ClusterAddons",
    "MachinePool": "MachinePools",
    "MachineDeployment": "MachineDeployments",
    "MachineSet": "MachineSets",
}


def reconcile_deletion(scope: Scope, observed: Observed) -> None:
    """Adds the next deletions to the scope, or the condition that names the objects that are waited for."""
    if not has_finalizer(scope.cluster, FINALIZER):
        return
    if observed.failure:
        _wait(scope, "InternalError", observed.failure)
        return
    pending = _pending(observed)
    if pending:
        for resource, objects in pending.items():
            scope.effects += [Delete(resource, o) for o in objects if owned_by(o, scope.cluster) and not deleting(o)]
        _wait(scope, "WaitingForWorkersDeletion", _format_pending(pending))
        return
    for found, reason in (
        (observed.control_plane, "WaitingForControlPlaneDeletion"),
        (observed.infrastructure, "WaitingForInfrastructureDeletion"),
    ):
        if found.reason == NOT_ALLOWED:
            continue  # the object belongs to another Cluster or to no provider
        if found.state == "failed":
            hint = "; the deletion continues once the kind is served, or its CRD is deleted"
            hint = hint if found.reason == NOT_SERVED else ""
            _wait(scope, found.reason or "InternalError", found.error + hint)
            return
        if found.object is not None and found.resource is not None:
            if not owned_by(found.object, scope.cluster):
                adopt(scope, found)  # only owned objects are deleted, so it is adopted first
            elif not deleting(found.object):
                scope.effects.append(Delete(found.resource, found.object))
            _wait(scope, reason, f"Waiting for {found.kind} to be deleted")
            return
    scope.effects += [Delete(SECRET, secret) for secret in observed.secrets]
    scope.effects.append(RemoveFinalizer(CLUSTER, scope.cluster, FINALIZER))


def wait_for_core(scope: Scope) -> str:
    """Sets the condition of a deletion that Cluster API core has not observed yet, and returns its message."""
    until = rfc3339(core_deadline(scope.cluster) or scope.now)
    message = f"Waiting until {until} for Cluster API core, which managed this Cluster, to observe its deletion"
    scope.set("Deleting", "True", "WaitingForClusterAPI", message)
    return message


def _wait(scope: Scope, reason: str, message: str) -> None:
    scope.set("Deleting", "True", reason, message)
    scope.waits.append(DELETION_RETRY)


def _pending(observed: Observed) -> dict[Resource, list[Object]]:
    """Returns the objects to delete first; control-plane Machines only if there is no control-plane object."""
    machines = list(observed.descendants.get(MACHINE, ()))
    workers = [m for m in machines if CONTROL_PLANE_LABEL not in dig(m, "metadata.labels", {})]
    standalone = observed.control_plane.state == "unreferenced"
    pending = {resource: list(observed.descendants.get(resource, ())) for resource in DESCENDANTS}
    pending[MACHINE] = machines if standalone else workers
    return {resource: objects for resource, objects in pending.items() if objects}


def _format_pending(pending: dict[Resource, list[Object]]) -> str:
    lines = []
    for resource, objects in pending.items():
        groups = {_TITLES.get(resource.kind, resource.kind): objects}
        if resource == MACHINE:
            control_plane = [m for m in objects if CONTROL_PLANE_LABEL in dig(m, "metadata.labels", {})]
            groups = {
                "Control plane Machines": control_plane,
                "Worker Machines": [m for m in objects if m not in control_plane],
            }
        for title, members in groups.items():
            names = sorted(obj["metadata"]["name"] for obj in members)
            more = f", ... ({len(names) - 5} more)" if len(names) > 5 else ""
            if names:
                lines.append(f"* {title}: {', '.join(names[:5])}{more}")
    return "\n".join(lines)
