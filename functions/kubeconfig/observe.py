"""Reads the inputs of a decision about one Cluster's kubeconfig; Secrets only as far as they are needed."""

from __future__ import annotations

from dataclasses import dataclass

from shared.api import cluster as cluster_api
from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import Object
from shared.runtime import Request

from .triggers import is_status_current


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one Cluster's kubeconfig."""

    cluster: Object | None
    existing: Object | None = None
    """Secret `<cluster>-kubeconfig`."""
    ca_secret: Object | None = None
    """Secret `<cluster>-ca`; only read if there is no kubeconfig."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the kubeconfig Secret once the Cluster has an endpoint; without that Secret also the CA Secret."""
    key, cluster = request.key, request.primary
    if (
        cluster is None
        or not cluster_api.wants_kubeconfig(cluster)
        or not is_status_current(cluster)
        or cluster_api.endpoint(cluster) is None
    ):
        return Observed(cluster)
    existing = clients.management.find(SECRET, kubeconfig_secret_of(key))
    if existing is not None:
        return Observed(cluster, existing)
    return Observed(cluster, None, clients.management.find(SECRET, ca_secret_of(key)))
