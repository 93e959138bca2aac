"""What follows for one Cluster: an ordered list of phases, each of which adds to the plan.

Rules are Cluster API's contract between a Cluster and its infrastructure object (book, "InfraCluster contract"): facts
such as `infrastructureProvisioned` and a valid endpoint never flip back, failure domains are always mirrored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.api import cluster as contract
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition, set_condition
from shared.api.resources import CLUSTER, MACHINE, SECRET
from shared.clients import Found
from shared.effects import Delete, Effect, Patch, RemoveFinalizer, ensure_finalizer
from shared.kube import Object, Resource, deleting, dig, has_finalizer, owned_by, owner_reference
from shared.runtime import Decision, Notice

from .observe import DESCENDANTS, Observed

FINALIZER = "cluster.cluster.x-k8s.io"
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"

REFERENCE_RETRY = 30.0
"""Seconds until a missing referenced object is looked for again."""
DELETION_RETRY = 5.0

_TITLES = {
    "ClusterAddon": "ClusterAddons",
    "MachinePool": "MachinePools",
    "MachineDeployment": "MachineDeployments",
    "MachineSet": "MachineSets",
}


@dataclass
class Plan:
    """The decision while it is being made."""

    cluster: Object
    now: datetime
    conditions: list[Object]
    initialization: dict[str, Any]
    endpoint: tuple[str, int] | None
    failure_domains: list[Object] | None = None
    effects: list[Effect] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def condition(self, type_: str, status: str, reason: str, message: str = "") -> None:
        self.conditions = set_condition(
            self.conditions,
            type_,
            status,
            reason,
            message,
            now=self.now,
            observed_generation=dig(self.cluster, "metadata.generation"),
        )

    @property
    def provisioned(self) -> bool:
        return self.initialization.get("infrastructureProvisioned") is True


def decide(observed: Observed, now: datetime) -> Decision:
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster is gone")
    plan = Plan(
        cluster=cluster,
        now=now,
        conditions=list(dig(cluster, "status.conditions", [])),
        initialization=_initialization(cluster),
        endpoint=contract.endpoint(cluster),
        # The write comes back as an event, but going on at once saves a round.
        effects=[] if deleting(cluster) else [*ensure_finalizer(CLUSTER, cluster, FINALIZER)],
    )
    if _paused(plan):
        return Decision(status={"conditions": plan.conditions}, message="paused")
    _infrastructure(plan, observed.infrastructure)
    _control_plane(plan, observed.control_plane)
    _infrastructure_ready(plan, observed.infrastructure)
    if deleting(cluster):
        _delete(plan, observed)
    else:
        plan.condition("Deleting", "False", "NotDeleting")
    return Decision(
        effects=tuple(plan.effects),
        status=_status(plan),
        notices=tuple(plan.notices),
        requeue=min(plan.waits, default=None),
        message="; ".join(plan.errors),
    )


# -- phases ----------------------------------------------------------------------------------------------------


def _paused(plan: Plan) -> bool:
    reasons = []
    if dig(plan.cluster, "spec.paused") is True:
        reasons.append("Cluster spec.paused is set to true")
    if "cluster.x-k8s.io/paused" in dig(plan.cluster, "metadata.annotations", {}):
        reasons.append("Cluster has the cluster.x-k8s.io/paused annotation")
    if reasons:
        plan.condition("Paused", "True", "Paused", ", ".join(reasons))
    else:
        plan.condition("Paused", "False", "NotPaused")
    return bool(reasons)


def _infrastructure(plan: Plan, found: Found) -> None:
    if found.state == "unreferenced":
        if not deleting(plan.cluster):
            plan.initialization["infrastructureProvisioned"] = True
        return
    if found.state == "failed":
        plan.errors.append(found.error)
        plan.waits.append(REFERENCE_RETRY)
        return
    if found.object is None:
        if not deleting(plan.cluster):
            if plan.provisioned:
                plan.errors.append(f"{found.kind} has been deleted after being provisioned")
            plan.waits.append(REFERENCE_RETRY)
        return
    infra = found.object
    _adopt(plan, found)
    if deleting(infra):
        return
    if not contract.provisioned(infra) and not plan.provisioned:
        plan.waits.append(REFERENCE_RETRY)
        return
    _copy_endpoint(plan, infra)
    try:
        plan.failure_domains = contract.failure_domains(infra)
    except ValueError as error:
        plan.errors.append(f"{found.kind} {infra['metadata']['name']}: {error}")
    if not plan.provisioned:
        plan.initialization["infrastructureProvisioned"] = True
        name = plan.cluster["metadata"]["name"]
        plan.notices.append(Notice("InfrastructureReady", f"Cluster {name} InfrastructureProvisioned is now True"))


def _control_plane(plan: Plan, found: Found) -> None:
    if found.object is None or deleting(found.object):
        return
    _adopt(plan, found)
    if plan.initialization.get("controlPlaneInitialized") or contract.control_plane_initialized(found.object):
        plan.initialization["controlPlaneInitialized"] = True
        _copy_endpoint(plan, found.object)


def _infrastructure_ready(plan: Plan, found: Found) -> None:
    gone = deleting(plan.cluster)
    kind = found.kind
    if found.state == "unreferenced":
        if dig(plan.cluster, "spec.topology") is not None and not gone:
            message = "Waiting for cluster topology to be reconciled"
            plan.condition("InfrastructureReady", "False", "ObjectDoesNotExist", message)
        else:
            plan.condition("InfrastructureReady", "True", "NotUsed", "The Cluster refers to no infrastructure object")
    elif found.state == "failed":
        plan.condition("InfrastructureReady", "Unknown", "InternalError", found.error)
    elif found.object is None:
        if plan.provisioned and gone:
            reason, message = "ObjectDeleted", f"{kind} has been deleted"
        elif plan.provisioned:
            reason, message = "ObjectDeleted", f"{kind} has been deleted while the cluster still exists"
        else:
            reason, message = "ObjectDoesNotExist", f"{kind} does not exist"
        plan.condition("InfrastructureReady", "False", reason, message)
    else:
        _mirror_ready(plan, kind, found.object)


def _mirror_ready(plan: Plan, kind: str, infra: Object) -> None:
    ready = get_condition(dig(infra, "status.conditions", []), "Ready")
    if ready is not None and ready.get("status") not in ("True", "False", "Unknown"):
        message = (
            f"failed to convert status.conditions from {kind} to []metav1.Condition: "
            "status must be set for the Ready condition"
        )
        plan.condition("InfrastructureReady", "Unknown", "InvalidConditionReported", message)
    elif ready is not None:
        reason = ready.get("reason") or ("Ready" if ready["status"] == "True" else "NoReasonReported")
        plan.condition("InfrastructureReady", ready["status"], reason, ready.get("message") or "")
    elif plan.provisioned:
        plan.condition("InfrastructureReady", "True", "Ready")
    else:
        detail = dig(infra, "status.failureMessage")
        message = f"{kind} status.initialization.provisioned is false" + (f": {detail}" if detail else "")
        plan.condition("InfrastructureReady", "False", "NotReady", message)


def _delete(plan: Plan, observed: Observed) -> None:
    """Workers first, then the control plane, then the infrastructure, then what only the Cluster kept alive."""
    if not has_finalizer(plan.cluster, FINALIZER):
        return
    if observed.failure:
        plan.condition("Deleting", "True", "InternalError", observed.failure)
        plan.waits.append(DELETION_RETRY)
        return
    pending = _pending(observed)
    if pending:
        for resource, objects in pending.items():
            plan.effects += [Delete(resource, o) for o in objects if owned_by(o, plan.cluster) and not deleting(o)]
        plan.condition("Deleting", "True", "WaitingForWorkersDeletion", _bullets(pending))
        plan.waits.append(DELETION_RETRY)
        return
    for found, reason in (
        (observed.control_plane, "WaitingForControlPlaneDeletion"),
        (observed.infrastructure, "WaitingForInfrastructureDeletion"),
    ):
        if found.state == "failed":
            plan.condition("Deleting", "True", "InternalError", found.error)
            plan.waits.append(DELETION_RETRY)
            return
        if found.object is not None and found.resource is not None:
            if not deleting(found.object):
                plan.effects.append(Delete(found.resource, found.object))
            plan.condition("Deleting", "True", reason, f"Waiting for {found.kind} to be deleted")
            plan.waits.append(DELETION_RETRY)
            return
    plan.effects += [Delete(SECRET, secret) for secret in observed.secrets]
    plan.effects.append(RemoveFinalizer(CLUSTER, plan.cluster, FINALIZER))


# -- helpers ---------------------------------------------------------------------------------------------------


def _initialization(cluster: Object) -> dict[str, Any]:
    """The facts so far; one that was written in the older contract holds, too."""
    facts = dict(dig(cluster, "status.initialization", {}))
    if contract.infrastructure_provisioned(cluster):
        facts["infrastructureProvisioned"] = True
    return facts


def _adopt(plan: Plan, found: Found) -> None:
    """Owner reference and label, in one patch, only where they differ."""
    if found.object is None or found.resource is None or deleting(plan.cluster):
        return
    metadata = found.object["metadata"]
    name = plan.cluster["metadata"]["name"]
    wanted = owner_reference(plan.cluster, controller=dig(plan.cluster, "spec.topology") is not None)
    references = metadata.get("ownerReferences") or []
    patch: Object = {}
    if wanted not in references:
        patch["ownerReferences"] = [r for r in references if r.get("uid") != wanted["uid"]] + [wanted]
    if dig(metadata, ("labels", CLUSTER_NAME_LABEL)) != name:
        patch["labels"] = {CLUSTER_NAME_LABEL: name}
    if patch:
        plan.effects.append(Patch(found.resource, found.object, {"metadata": patch}))


def _copy_endpoint(plan: Plan, source: Object) -> None:
    offered = contract.endpoint(source)
    if plan.endpoint is None and offered is not None:
        plan.endpoint = offered
        host, port = offered
        spec = {"controlPlaneEndpoint": {"host": host, "port": port}}
        plan.effects.append(Patch(CLUSTER, plan.cluster, {"spec": spec}))


def _pending(observed: Observed) -> dict[Resource, list[Object]]:
    """What must be gone first; control-plane Machines count only where no control-plane object looks after them."""
    machines = list(observed.descendants.get(MACHINE, ()))
    workers = [m for m in machines if CONTROL_PLANE_LABEL not in dig(m, "metadata.labels", {})]
    standalone = observed.control_plane.state == "unreferenced"
    pending = {resource: list(observed.descendants.get(resource, ())) for resource in DESCENDANTS}
    pending[MACHINE] = machines if standalone else workers
    return {resource: objects for resource, objects in pending.items() if objects}


def _bullets(pending: dict[Resource, list[Object]]) -> str:
    lines = []
    for resource, objects in pending.items():
        groups = {_TITLES.get(resource.kind, resource.kind): objects}
        if resource == MACHINE:
            first = [m for m in objects if CONTROL_PLANE_LABEL in dig(m, "metadata.labels", {})]
            groups = {
                "Control plane Machines": first,
                "Worker Machines": [m for m in objects if m not in first],
            }
        for title, members in groups.items():
            names = sorted(obj["metadata"]["name"] for obj in members)
            more = f", ... ({len(names) - 5} more)" if len(names) > 5 else ""
            if names:
                lines.append(f"* {title}: {', '.join(names[:5])}{more}")
    return "\n".join(lines)


def phase(plan_or_cluster: Object, *, provisioned: bool, endpoint: bool) -> str:
    """The phase word: the last rule that holds wins."""
    word = "Pending"
    if dig(plan_or_cluster, "spec.infrastructureRef") or dig(plan_or_cluster, "spec.controlPlaneRef"):
        word = "Provisioning"
    if provisioned and endpoint:
        word = "Provisioned"
    if deleting(plan_or_cluster):
        word = "Deleting"
    return word


def _status(plan: Plan) -> Object:
    word = phase(plan.cluster, provisioned=plan.provisioned, endpoint=plan.endpoint is not None)
    if word != dig(plan.cluster, "status.phase", "Pending"):  # in which each begins: no news
        plan.notices.append(Notice(word, f"Cluster {plan.cluster['metadata']['name']} is {word}"))
    status: Object = {"phase": word, "conditions": plan.conditions, "initialization": plan.initialization}
    if plan.failure_domains is not None:
        status["failureDomains"] = plan.failure_domains
    if not plan.errors:
        status["observedGeneration"] = dig(plan.cluster, "metadata.generation")
    return status
