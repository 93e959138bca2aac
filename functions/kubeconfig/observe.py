"""Reads the inputs of a decision about one Cluster's kubeconfig; Secrets only as far as they are needed."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import Object, dig
from shared.runtime import Request

from .admin_kubeconfig import CA
from .need import why_not_now


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster's kubeconfig."""

    cluster: Object | None
    existing: Object | None = None
    """Secret `<cluster>-kubeconfig`."""
    ca: CA | str | None = None
    """The content of Secret `<cluster>-ca`; a str says why it cannot sign. Only read if there is no kubeconfig."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the kubeconfig Secret once the Cluster has an endpoint; without that Secret also the CA Secret."""
    key, cluster = request.key, request.primary
    if cluster is None or why_not_now(cluster):
        return Observed(cluster)
    existing = clients.management.find(SECRET, kubeconfig_secret_of(key))
    if existing is not None:
        return Observed(cluster, existing)
    return Observed(cluster, None, _ca(clients.management.find(SECRET, ca_secret_of(key))))


def _ca(secret: Object | None) -> CA | str | None:
    if secret is None:
        return None
    data = dig(secret, "data", {})
    try:
        ca = CA(*(base64.b64decode(data.get(field) or "") for field in ("tls.crt", "tls.key")))
        ca.check()
    except ValueError as error:
        return str(error)
    return ca
