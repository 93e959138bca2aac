"""Decides about one Cluster's kubeconfig: Secret `<cluster>-kubeconfig` is created from `<cluster>-ca`.

An existing Secret is never changed.
"""

from __future__ import annotations

import base64
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, KUBECONFIG_AVAILABLE
from shared.api.conditions import get_condition, set_condition
from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.effects import Create
from shared.kube import Object, deleting, dig, key_of, owned_by, owner_reference
from shared.runtime import Decision, KubernetesEvent

from .admin_kubeconfig import create_admin_kubeconfig, server_url
from .observe import Observed
from .triggers import is_status_current

CA_RETRY = 30.0
"""Seconds until the next read of the CA: its creation triggers an event, but events may get lost."""


def decide(observed: Observed, now: datetime) -> Decision:
    """Decides whether to create the Secret, and sets the condition that reports it."""
    cluster = observed.cluster
    if cluster is None or deleting(cluster) or cluster_api.is_paused(cluster):
        return Decision()
    if cluster_api.control_plane_ref(cluster):
        return Decision(message="the control-plane provider creates the kubeconfig")
    if not is_status_current(cluster):
        return Decision(message="waiting until the Cluster's status is of its current generation")
    endpoint = cluster_api.endpoint(cluster)
    if endpoint is None:
        # Without a condition: `cluster` reports why there is none yet, and both would write the same status at once.
        return Decision(message="waiting for spec.controlPlaneEndpoint")
    if observed.existing is not None:
        if owned_by(observed.existing, cluster):
            return _report(cluster, now, "True", "Generated")
        return _report(cluster, now, "True", "UserProvided", "The Cluster does not own the Secret: left unchanged")
    key = key_of(cluster)
    name = key.name
    if observed.ca_secret is None:
        message = f"Waiting for Secret {ca_secret_of(key).name} with tls.crt and tls.key"
        return _report(cluster, now, "False", "WaitingForCA", message, requeue_after=CA_RETRY)
    try:
        data = observed.ca_secret.get("data") or {}
        certificate, private = (base64.b64decode(data.get(field) or "") for field in ("tls.crt", "tls.key"))
        document = create_admin_kubeconfig(name, server_url(*endpoint), certificate, private, now=now)
    except ValueError as error:
        message = f"Secret {ca_secret_of(key).name} cannot be used: {error}"
        return _report(cluster, now, "False", "InvalidCA", message, requeue_after=CA_RETRY)
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": kubeconfig_secret_of(key).name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": {CLUSTER_NAME_LABEL: name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(document).decode()},
    }
    return _report(cluster, now, "True", "Generated", create=Create(SECRET, secret))


def _report(
    cluster: Object,
    now: datetime,
    status: str,
    reason: str,
    message: str = "",
    *,
    requeue_after: float | None = None,
    create: Create | None = None,
) -> Decision:
    before = dig(cluster, "status.conditions", [])
    conditions = set_condition(
        before,
        KUBECONFIG_AVAILABLE,
        status,
        reason,
        message,
        now=now,
        # The condition does not depend on the spec: keeping the generation of its first write saves writes.
        observed_generation=(get_condition(before, KUBECONFIG_AVAILABLE) or {}).get("observedGeneration")
        or cluster["metadata"].get("generation"),
    )
    kubernetes_events: tuple[KubernetesEvent, ...] = ()
    if reason == "InvalidCA":
        kubernetes_events = (KubernetesEvent(reason, message, "Warning"),)
    elif create is not None:
        kubernetes_events = (
            KubernetesEvent("KubeconfigGenerated", f"Secret {create.body['metadata']['name']} created"),
        )
    return Decision(
        effects=(create,) if create else (),
        status={"conditions": conditions},
        kubernetes_events=kubernetes_events,
        requeue_after=requeue_after,
        message=message,
    )
