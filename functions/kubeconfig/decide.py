"""Decides about one Cluster's kubeconfig: Secret `<cluster>-kubeconfig` is created from `<cluster>-ca`.

An existing Secret is never changed.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, KUBECONFIG_AVAILABLE
from shared.api.conditions import get_condition
from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.effects import Create
from shared.kube import Object, key_of, owned_by, owner_reference
from shared.runtime import Decision
from shared.runtime.status import StatusBuilder

from .admin_kubeconfig import CA, VALIDITY, create_admin_kubeconfig, server_url
from .need import why_not_now
from .observe import Observed

CA_RETRY = 30.0
"""Seconds until the next read of the CA: its creation triggers an event, but events may get lost."""

GENERATED = "Generated"
"""The reason of the condition if the Cluster owns the Secret."""


@dataclass(frozen=True)
class CreateKubeconfig:
    """Effect: issues an admin certificate, and creates `secret` with the kubeconfig that contains it."""

    secret: Object
    cluster: str
    server: str
    ca: CA
    until: datetime

    def execute(self, clients: Clients) -> Object:
        """Returns the new Secret, or the one that a repeated or concurrent execution has created."""
        document = create_admin_kubeconfig(self.cluster, self.server, self.ca, until=self.until)
        data = {"value": base64.b64encode(document).decode()}
        return Create(SECRET, {**self.secret, "data": data}).execute(clients)


class _Status(StatusBuilder):
    """Keeps the generation of the condition's first write: the condition does not depend on the spec.

    A new generation alone would be a write that tells nothing.
    """

    @property
    def generation(self) -> int | None:
        first = get_condition(self.initial, KUBECONFIG_AVAILABLE) or {}
        return first.get("observedGeneration") or super().generation


def decide(observed: Observed, now: datetime) -> Decision:
    """Decides whether to create the Secret, and sets the condition that reports it."""
    cluster = observed.cluster
    if cluster is None:
        return Decision(message="the Cluster is gone")
    if reason := why_not_now(cluster):
        return Decision(message=reason)
    status, ca = _Status(cluster, now), observed.ca
    if observed.existing is not None:
        if owned_by(observed.existing, cluster):
            status.set_true(KUBECONFIG_AVAILABLE, GENERATED)
        else:
            message = "The Cluster does not own the Secret: left unchanged"
            status.set_true(KUBECONFIG_AVAILABLE, "UserProvided", message)
        return status.decision()
    if not isinstance(ca, CA):
        name = ca_secret_of(key_of(cluster)).name
        if ca is None:
            message = f"Waiting for Secret {name} with tls.crt and tls.key"
            status.set_false(KUBECONFIG_AVAILABLE, "WaitingForCA", message)
        else:
            message = f"Secret {name} cannot be used: {ca}"
            status.set_false(KUBECONFIG_AVAILABLE, "InvalidCA", message, event_type="Warning")
        return status.decision(requeue_after=CA_RETRY, message=message)
    create = _create(cluster, ca, now + VALIDITY)
    status.set_true(KUBECONFIG_AVAILABLE, GENERATED)
    status.add_event("KubeconfigGenerated", f"Secret {create.secret['metadata']['name']} created")
    return status.decision(create)


def _create(cluster: Object, ca: CA, until: datetime) -> CreateKubeconfig:
    key, endpoint = key_of(cluster), cluster_api.endpoint(cluster)
    assert endpoint is not None
    secret: Object = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            **kubeconfig_secret_of(key)._asdict(),
            "labels": {CLUSTER_NAME_LABEL: key.name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": "cluster.x-k8s.io/secret",
    }
    return CreateKubeconfig(secret, key.name, server_url(*endpoint), ca, until)
