"""Reads the inputs of a decision about one KINDCluster: its instance, its Secrets and its Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, infrastructure_ref
from shared.api.resources import CLUSTER, KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.kube import Key, NotServed, Object, dig, key_of, owned_by, owners
from shared.kube.crds import find_definition

from .runtime import Instance, Runtime, RuntimeUnavailable, from_env


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one KINDCluster; `runtime` is None if it cannot be used, or is not needed."""

    kind_cluster: Object | None
    runtime: Runtime | None = None
    instance: Instance = field(default_factory=lambda: Instance("absent"))
    ca_secret: Object | None = None
    """Secret `<cluster>-ca`."""
    config: Object | None = None
    """Secret `<clusterName>-config`."""
    cluster: Object | None = None
    """The Cluster that refers to the KINDCluster as its infrastructure, if there is one."""


def observe(clients: Clients, key: Key, kind_cluster: Object | None) -> Observed:
    """Reads the Cluster; unless it is paused, also the instance and the Secrets."""
    if kind_cluster is None:
        return Observed(None)
    cluster = _cluster(clients, kind_cluster)
    if is_paused(kind_cluster, cluster):
        return Observed(kind_cluster, cluster=cluster)
    try:
        runtime = from_env()
        instance = runtime.inspect(kind_cluster["metadata"]["uid"])
    except RuntimeUnavailable as error:
        return Observed(kind_cluster, instance=Instance("failed", str(error)), cluster=cluster)
    ca_secret = clients.management.find(SECRET, Key(key.namespace, f"{cluster_name(kind_cluster)}-ca"))
    config = clients.management.find(SECRET, Key(key.namespace, config_secret_name(kind_cluster)))
    return Observed(kind_cluster, runtime, instance, ca_secret, config, cluster)


def is_paused(kind_cluster: Object, cluster: Object | None) -> bool:
    """Returns whether the KINDCluster or its Cluster is paused."""
    return cluster_api.is_paused(kind_cluster) or (cluster is not None and cluster_api.is_paused(cluster))


def _cluster(clients: Clients, kind_cluster: Object) -> Object | None:
    """Finds the Cluster of a KINDCluster by owner reference, else by label.

    Before either is set, it is the Cluster of the same name, if that refers to the KINDCluster.
    """
    key = key_of(kind_cluster)
    named = [reference["name"] for reference in owners(kind_cluster, CLUSTER.kind, CLUSTER.group)]
    name = (named or [dig(kind_cluster, ("metadata", "labels", CLUSTER_NAME_LABEL)) or key.name])[0]
    try:
        cluster = clients.management.find(CLUSTER, Key(key.namespace, name))
    except NotServed:
        if find_definition(clients.management, CLUSTER) is not None:
            raise
        return None  # KINDClusters also work without Cluster API
    if cluster is None or owned_by(kind_cluster, cluster):
        return cluster
    reference = infrastructure_ref(cluster) or {}
    return cluster if (reference.get("kind"), reference.get("name")) == (KIND_CLUSTER.kind, key.name) else None


def cluster_name(kind_cluster: Object) -> str:
    """Returns the name of the Cluster by owner reference or label, else `spec.clusterName`, else the object's name."""
    for reference in owners(kind_cluster, CLUSTER.kind, CLUSTER.group):
        return str(reference["name"])
    label = dig(kind_cluster, "metadata.labels", {}).get(CLUSTER_NAME_LABEL)
    return str(label or dig(kind_cluster, "spec.clusterName") or key_of(kind_cluster).name)


def config_secret_name(kind_cluster: Object) -> str:
    """Returns the name of the Secret with the kubeconfig, as upstream derives it."""
    return f"{dig(kind_cluster, 'spec.clusterName', '')}-config"
