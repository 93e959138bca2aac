"""The objects that a Cluster refers to: it owns them, and takes over what they have found out.

Facts such as `infrastructureProvisioned` and a valid endpoint never flip back, failure domains are always mirrored.
"""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER
from shared.clients import Found
from shared.effects import Patch
from shared.kube import Object, deleting, dig, owner_reference
from shared.runtime import Notice

from .plan import Plan

REFERENCE_RETRY = 30.0
"""Seconds until a missing referenced object is looked for again."""


def infrastructure(plan: Plan, found: Found) -> None:
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
    if not cluster_api.provisioned(infra) and not plan.provisioned:
        plan.waits.append(REFERENCE_RETRY)
        return
    _copy_endpoint(plan, infra)
    try:
        plan.failure_domains = cluster_api.failure_domains(infra)
    except ValueError as error:
        plan.errors.append(f"{found.kind} {infra['metadata']['name']}: {error}")
    if not plan.provisioned:
        plan.initialization["infrastructureProvisioned"] = True
        name = plan.cluster["metadata"]["name"]
        plan.notices.append(Notice("InfrastructureReady", f"Cluster {name} InfrastructureProvisioned is now True"))


def control_plane(plan: Plan, found: Found) -> None:
    if found.object is None or deleting(found.object):
        return
    _adopt(plan, found)
    if plan.initialization.get("controlPlaneInitialized") or cluster_api.control_plane_initialized(found.object):
        plan.initialization["controlPlaneInitialized"] = True
        _copy_endpoint(plan, found.object)


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
    offered = cluster_api.endpoint(source)
    if plan.endpoint is None and offered is not None:
        plan.endpoint = offered
        host, port = offered
        spec = {"controlPlaneEndpoint": {"host": host, "port": port}}
        plan.effects.append(Patch(CLUSTER, plan.cluster, {"spec": spec}))


def infrastructure_ready(plan: Plan, found: Found) -> None:
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
