"""Connects to the cluster that objects are applied to: the management cluster, or a workload cluster by kubeconfig."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api.names import kubeconfig_secret_of
from ..api.resources import SECRET
from ..clients import Clients, ClusterClients
from ..kube import ApiError, Key, Resource, Unauthorized, dig
from ..kube.connect import KubeconfigError

_DEADLINE_SECONDS = 90.0
"""The time limit for all requests of one reconcile. A delivery may begin its last reconcile late, because both times
together are below the forwarder's timeout."""


@dataclass(frozen=True)
class ConnectionFailed:
    """The cluster cannot be used yet; `message` is the reason, `severity` the severity of the condition."""

    message: str
    severity: str = "Info"


@dataclass(frozen=True)
class ClusterConnection:
    """A cluster whose API server answered, and the kinds that it serves by (apiVersion, kind)."""

    cluster: ClusterClients
    served: Mapping[tuple[str, str], Resource]


@dataclass(frozen=True)
class OpenedWorkload:
    """The clients of a workload cluster, before the first request, and the kubeconfig that configures them."""

    clients: ClusterClients
    kubeconfig: bytes = field(repr=False)
    secret: str
    """The name of the kubeconfig Secret."""


def open_workload(clients: Clients, cluster: Key) -> OpenedWorkload | ConnectionFailed:
    """Returns the clients of the workload cluster of the Cluster `cluster`, without a request to it.

    Raises:
        ApiError: The management cluster's API server failed.
    """
    key = kubeconfig_secret_of(cluster)
    secret = clients.management.find(SECRET, key)
    if secret is None:
        return ConnectionFailed(f"Secret {key.name} with the kubeconfig does not exist yet", "Warning")
    try:
        kubeconfig = base64.b64decode(dig(secret, "data.value") or "", validate=True)
        if not kubeconfig:
            raise KubeconfigError('missing key "value" in secret data')
        return OpenedWorkload(clients.workload(kubeconfig), kubeconfig, key.name)
    except (KubeconfigError, ValueError) as error:
        return ConnectionFailed(f"Secret {key.name}: {error}", "Warning")


def connect_workload(clients: Clients, cluster: Key) -> ClusterConnection | ConnectionFailed:
    """Connects to the workload cluster of the Cluster `cluster`.

    Raises:
        ApiError: The management cluster's API server failed.
    """
    opened = open_workload(clients, cluster)
    if isinstance(opened, ConnectionFailed):
        return opened
    workload = opened.clients.within(_DEADLINE_SECONDS)
    try:
        workload.discovery.probe(workload.client)
        served = workload.discovery.served()
    except Unauthorized as error:
        clients.forget(opened.kubeconfig)
        return ConnectionFailed(f"the API server refuses the credentials in {opened.secret}: {error}", "Warning")
    except ApiError as error:
        return ConnectionFailed(f"the workload API server is not ready: {error}")
    return ClusterConnection(workload, served)


def connect_management(clients: Clients) -> ClusterConnection:
    """Returns the management cluster as a cluster to apply objects to. Raises `ApiError` if discovery fails."""
    cluster = ClusterClients(clients.management)
    cluster.discovery = clients.discovery
    return ClusterConnection(cluster, clients.discovery.served())
