"""Reads the inputs of a decision about one KINDCluster: its instance, its Secrets and its Cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL, infrastructure_ref
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER, KIND_CLUSTER, SECRET
from shared.clients import Clients
from shared.kube import Key, NotServed, Object, deleting, dig, has_finalizer, key_of, owned_by, owners
from shared.kube.crds import find_definition
from shared.runtime import Request
from shared.runtime.status import PAUSED

from .runtime import Instance, InstanceSpec, RuntimeUnavailable, check_allowed, creates_instances, runtime_for
from .triggers import FINALIZER

MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/managed-by"
PROVISIONING = "Provisioning"
"""The phase in the status while the instance starts."""


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one KINDCluster."""

    kind_cluster: Object | None
    instance: Instance = field(default_factory=lambda: Instance("absent"))
    ca_secret: Object | None = None
    """Secret `<cluster>-ca`."""
    config: Object | None = None
    """Secret `<clusterName>-config`."""
    cluster: Object | None = None
    """The Cluster that refers to the KINDCluster as its infrastructure, if there is one."""
    published: bool = False
    """Whether spec and status show that the instance starts or runs; then nothing else is read, except at a resync."""
    served_elsewhere: bool = False
    """Whether this process creates no instances, so that only other functions can have created this one."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the instance. Unless the status shows its state, also reads the Cluster, and its Secrets if not paused."""
    key, kind_cluster = request.key, request.primary
    if kind_cluster is None:
        return Observed(None)
    if is_managed_elsewhere(kind_cluster):
        return Observed(kind_cluster)
    if has_finalizer(kind_cluster, FINALIZER) and not creates_instances():
        return Observed(kind_cluster, served_elsewhere=True)
    instance = _inspect(kind_cluster)
    # An event of the Cluster may be about its pause, so the Cluster is read.
    is_own = request.event.kind != CLUSTER.kind
    if is_own and not request.event.is_look and is_published(kind_cluster, instance):
        return Observed(kind_cluster, instance, published=True)
    cluster = _cluster(clients, kind_cluster)
    if instance.phase == "unknown" or is_paused(kind_cluster, cluster):
        return Observed(kind_cluster, instance, cluster=cluster)
    ca_secret = clients.management.find(SECRET, Key(key.namespace, f"{cluster_name(kind_cluster)}-ca"))
    config = clients.management.find(SECRET, Key(key.namespace, config_secret_name(kind_cluster)))
    return Observed(kind_cluster, instance, ca_secret, config, cluster)


def _inspect(kind_cluster: Object) -> Instance:
    """Returns the state of the instance; `unknown` with the reason if the runtime cannot be used."""
    try:
        if not has_finalizer(kind_cluster, FINALIZER):  # nothing was created
            check_allowed(kind_cluster)
        return runtime_for(kind_cluster).inspect(InstanceSpec.of(kind_cluster))
    except RuntimeUnavailable as error:
        return Instance("unknown", str(error), reason=error.reason)


def is_published(kind_cluster: Object, instance: Instance) -> bool:
    """Returns whether spec and status show that the instance starts or is ready, and that it is not paused."""
    if deleting(kind_cluster) or cluster_api.is_paused(kind_cluster):
        return False
    conditions = dig(kind_cluster, "status.conditions", [])
    ready, paused = get_condition(conditions, READY) or {}, get_condition(conditions, PAUSED) or {}
    if paused.get("status") != "False":
        return False
    if instance.phase == "starting":
        shown = dig(kind_cluster, "status.phase"), dig(kind_cluster, "status.failureMessage"), ready.get("message")
        return shown == (PROVISIONING, None, instance.step)
    return (
        instance.phase == "ready"
        and (ready.get("status"), ready.get("message") or "") == ("True", other_version(kind_cluster, instance))
        and dig(kind_cluster, "status.ready") is True
        and dig(kind_cluster, "status.initialization.provisioned") is True
        and dig(kind_cluster, "spec.controlPlaneEndpoint.port") is not None
        and has_condition_fields(kind_cluster)
    )


def other_version(kind_cluster: Object, instance: Instance) -> str:
    """Returns a sentence if the instance runs another minor version than `spec.kubernetesVersion`; else ""."""
    wanted = dig(kind_cluster, "spec.kubernetesVersion", "")
    if not wanted or not instance.version or f"{instance.version.removeprefix('v')}.".startswith(f"{wanted}."):
        return ""
    return f"it runs Kubernetes {instance.version}; spec.kubernetesVersion is {wanted}"


def is_managed_elsewhere(kind_cluster: Object) -> bool:
    """Returns whether another program provides the infrastructure, as Cluster API's contract for providers defines."""
    return MANAGED_BY_ANNOTATION in dig(kind_cluster, "metadata.annotations", {})


def has_condition_fields(kind_cluster: Object) -> bool:
    """Returns whether each entry of the history is a condition; upstream writes entries without a type."""
    return all(entry.get("type") and entry.get("status") for entry in dig(kind_cluster, "status.conditions", []))


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
