"""`kubeconfig`: from `<cluster>-ca` make `<cluster>-kubeconfig`; one that is there already is nobody's to touch."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime

from shared import kubeconfig
from shared.api import cluster as contract
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition, is_true, set_condition
from shared.api.names import authority_of, kubeconfig_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import Create
from shared.event import Event
from shared.kube import Key, Object, deleting, dig, key_of, owned_by, owner_reference
from shared.runtime import Decision, Function, Notice

from .triggers import TRIGGERS

CONDITION = "KubeconfigAvailable"
CA_RETRY = 30.0
"""Seconds: the CA's arrival is an event, this is for the one that got lost."""


@dataclass(frozen=True)
class Observed:
    cluster: Object | None
    existing: Object | None = None
    authority: Object | None = None


def observe(clients: Clients, key: Key, cluster: Object | None) -> Observed:
    if cluster is None or not _wanted(cluster) or contract.endpoint(cluster) is None:
        return Observed(cluster)
    existing = clients.management.find(SECRET, kubeconfig_of(key))
    if existing is not None:
        return Observed(cluster, existing)
    return Observed(cluster, None, clients.management.find(SECRET, authority_of(key)))


def decide(observed: Observed, now: datetime) -> Decision:
    cluster = observed.cluster
    if cluster is None or deleting(cluster) or contract.is_paused(cluster):
        return Decision()
    if contract.control_plane_ref(cluster):
        return Decision(message="the control-plane provider makes the kubeconfig")
    endpoint = contract.endpoint(cluster)
    if endpoint is None:
        message = "Waiting for spec.controlPlaneEndpoint"
        return _report(cluster, now, "False", "WaitingForEndpoint", message)
    if observed.existing is not None:
        if owned_by(observed.existing, cluster):
            return _report(cluster, now, "True", "Generated")
        return _report(cluster, now, "True", "UserProvided", "The kubeconfig was not made here and is left alone")
    key = key_of(cluster)
    name = key.name
    if observed.authority is None:
        message = f"Waiting for Secret {authority_of(key).name} with tls.crt and tls.key"
        return _report(cluster, now, "False", "WaitingForCA", message, requeue=CA_RETRY)
    try:
        data = observed.authority.get("data") or {}
        certificate, private = (base64.b64decode(data.get(field) or "") for field in ("tls.crt", "tls.key"))
        document = kubeconfig.mint(name, kubeconfig.server_url(*endpoint), certificate, private, now=now)
    except ValueError as error:
        message = f"Secret {authority_of(key).name} cannot be used: {error}"
        return _report(cluster, now, "False", "InvalidCA", message, requeue=CA_RETRY)
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": kubeconfig_of(key).name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": {CLUSTER_NAME_LABEL: name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(document).decode()},
    }
    return _report(cluster, now, "True", "Generated", create=Create(SECRET, secret))


def settled(cluster: Object, event: Event) -> bool:
    """The condition remembers that the Secret is there; only an event about a Secret can say otherwise."""
    if not _wanted(cluster):
        return True
    conditions = dig(cluster, "status.conditions", [])
    return event.kind != SECRET.kind and event.object is not None and is_true(conditions, CONDITION)


def _wanted(cluster: Object) -> bool:
    return not (deleting(cluster) or contract.is_paused(cluster) or contract.control_plane_ref(cluster))


def _report(
    cluster: Object,
    now: datetime,
    status: str,
    reason: str,
    message: str = "",
    *,
    requeue: float | None = None,
    create: Create | None = None,
) -> Decision:
    before = dig(cluster, "status.conditions", [])
    conditions = set_condition(
        before,
        CONDITION,
        status,
        reason,
        message,
        now=now,
        # The first one is kept: this condition does not follow the spec, and a newer number would cost a write.
        observed_generation=(get_condition(before, CONDITION) or {}).get("observedGeneration")
        or cluster["metadata"].get("generation"),
    )
    notices: tuple[Notice, ...] = ()
    if reason == "InvalidCA":
        notices = (Notice(reason, message, "Warning"),)
    elif create is not None:
        notices = (Notice("KubeconfigGenerated", f"Secret {create.body['metadata']['name']} created"),)
    return Decision(
        effects=(create,) if create else (),
        status={"conditions": conditions},
        notices=notices,
        requeue=requeue,
        message=message,
    )


FUNCTION = Function(TRIGGERS, observe, decide, settled)
handle = FUNCTION.handle
