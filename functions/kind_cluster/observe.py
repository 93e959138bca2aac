"""What is read for a decision about one KINDCluster: its instance, and the Secrets that are published of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, SECRET
from shared.clients import Clients
from shared.kube import Key, Object, dig, key_of, owners

from .runtime import Instance, Runtime, RuntimeProblem, from_env


@dataclass(frozen=True)
class Observed:
    kind_cluster: Object | None
    runtime: Runtime | None = None
    instance: Instance = field(default_factory=lambda: Instance("absent"))
    authority: Object | None = None
    """Secret `<cluster>-ca`."""
    config: Object | None = None
    """Secret `<clusterName>-config`."""


def observe(clients: Clients, key: Key, kind_cluster: Object | None) -> Observed:
    if kind_cluster is None:
        return Observed(None)
    try:
        runtime = from_env()
        instance = runtime.inspect(kind_cluster["metadata"]["uid"])
    except RuntimeProblem as error:
        return Observed(kind_cluster, instance=Instance("failed", str(error)))
    authority = clients.management.find(SECRET, Key(key.namespace, f"{cluster_name(kind_cluster)}-ca"))
    config = clients.management.find(SECRET, Key(key.namespace, config_name(kind_cluster)))
    return Observed(kind_cluster, runtime, instance, authority, config)


def cluster_name(kind_cluster: Object) -> str:
    """The Cluster that this infrastructure is for; without one, the name that the user gave."""
    for reference in owners(kind_cluster, CLUSTER.kind, CLUSTER.group):
        return str(reference["name"])
    label = dig(kind_cluster, "metadata.labels", {}).get(CLUSTER_NAME_LABEL)
    return str(label or dig(kind_cluster, "spec.clusterName") or key_of(kind_cluster).name)


def config_name(kind_cluster: Object) -> str:
    return f"{dig(kind_cluster, 'spec.clusterName', '')}-config"
