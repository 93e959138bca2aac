"""The way to a workload cluster: its kubeconfig Secret, and an API server that answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from ..api.names import kubeconfig_of
from ..api.resources import SECRET
from ..clients import Clients, ClusterClients
from ..kube import ApiError, Key, Resource, Unauthorized, dig
from ..kube.connect import KubeconfigError

_SECONDS = 90.0
"""For all requests of one round: with the time in which a delivery begins rounds less than a forwarder waits."""


@dataclass(frozen=True)
class Unreachable:
    """Why the workload cluster cannot be worked on yet; `severity` is that of the condition."""

    message: str
    severity: str = "Info"


@dataclass(frozen=True)
class Reached:
    """A workload cluster whose API server answered, and the kinds that it serves."""

    workload: ClusterClients
    served: Mapping[tuple[str, str], Resource]


def reach(clients: Clients, cluster: Key) -> Reached | Unreachable:
    """The workload cluster of the Cluster `cluster`. Raises `ApiError` where the management cluster fails."""
    key = kubeconfig_of(cluster)
    secret = clients.management.find(SECRET, key)
    if secret is None:
        return Unreachable(f"kubeconfig not there (yet): waiting for Secret {key.name}", "Warning")
    try:
        kubeconfig = base64.b64decode(dig(secret, "data.value") or "", validate=True)
        if not kubeconfig:
            raise KubeconfigError('missing key "value" in secret data')
        workload = clients.workload(kubeconfig).within(_SECONDS)
    except (KubeconfigError, ValueError) as error:
        return Unreachable(f"Secret {key.name}: {error}", "Warning")
    try:
        workload.client.text("/readyz")
        served = workload.discovery.served()
    except Unauthorized as error:
        clients.forget(kubeconfig)
        return Unreachable(f"the API server refuses the credentials in {key.name}: {error}", "Warning")
    except ApiError as error:
        return Unreachable(f"the workload API server is not ready: {error}")
    return Reached(workload, served)


def here(clients: Clients) -> Reached:
    """The management cluster, as a place to apply objects to."""
    workload = ClusterClients(clients.management)
    workload.discovery = clients.discovery
    return Reached(workload, clients.discovery.served())
