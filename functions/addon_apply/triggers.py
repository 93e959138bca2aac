"""Starts `addon_apply` when a ClusterAddon, its Cluster or kubeconfig Secret changes, or a release is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles, watch_filter
from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.hooks import WAIT_ANNOTATION
from shared.api.names import ADDON_FINALIZER, KUBECONFIG_SUFFIX, STAGE_ANNOTATION, addon_of, cluster_of_secret
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, SECRET
from shared.applier.policy import PREFIX
from shared.kube import Key, deleting, dig
from shared.releases.events import FETCHED
from shared.settings import INSTALLATION, NETWORK, STORAGE
from shared.triggers import MEMORY_TO_RENDER, READ_CRDS, SPEC, Rule, Subscription, Triggers, Watch, label

from .reconciled import is_reconciled


def addon_of_secret(secret: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ClusterAddon for the Cluster of a kubeconfig Secret; None for other Secrets."""
    cluster = cluster_of_secret(secret, KUBECONFIG_SUFFIX)
    return addon_of({"metadata": cluster._asdict()}) if cluster else None


def relevant_in_cluster(cluster: Mapping[str, Any]) -> object:
    """Returns the fields that an update must change; of the annotations only the policy and the pause."""
    annotations = dig(cluster, "metadata.annotations", {})
    return [
        cluster_api.class_name(cluster),
        cluster_api.class_namespace(cluster),
        cluster_api.is_paused(cluster),
        deleting(cluster),
        watch_filter.value_of(cluster),
        {name: value for name, value in annotations.items() if name.startswith(PREFIX)},
    ]


def relevant_in_addon(addon: Mapping[str, Any]) -> object:
    """Returns the fields that an update by others must change, without the record that this function writes.

    The next resync repairs the record if others have changed it.
    """
    annotations = {**dig(addon, "metadata.annotations", {})}
    for own in (STAGE_ANNOTATION, WAIT_ANNOTATION):
        annotations.pop(own, None)
    metadata = [dig(addon, f"metadata.{field}") for field in ("deletionTimestamp", "finalizers")]
    return [*metadata, annotations, dig(addon, "spec.clusterRef"), dig(addon, "spec.hook", "")]


TRIGGERS = Triggers(
    name="addon_apply",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER_ADDON,
            fields=(*SPEC, "metadata.annotations"),
            digest=relevant_in_addon,
            changes=("add", "update"),
        ),
        Watch(
            CLUSTER,
            key=addon_of,
            fields=(
                "spec.topology.class",
                "spec.topology.classRef",
                "spec.paused",
                "metadata.annotations",
                label(watch_filter.LABEL),
                "metadata.deletionTimestamp",
            ),
            digest=relevant_in_cluster,
            needs_primary=True,
            filtered=True,
        ),
        Watch(
            SECRET,
            key=addon_of_secret,
            reference=True,
            selector=CLUSTER_NAME_LABEL,
            changes=("add", "update"),
            needs_primary=True,
        ),
    ),
    subscriptions=(Subscription(FETCHED),),
    is_reconciled=is_reconciled,
    finalizer=ADDON_FINALIZER,
    rules=(
        Rule(CLUSTER_STACK.group, (CLUSTER_STACK.plural,), ("list",)),  # where a release comes from
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "patch", "delete")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule(CLUSTER.group, (f"{CLUSTER.plural}/status",), ("patch",)),  # of Clusters that no program reconciles
        Rule("", ("secrets",), ("get", "create", "patch", "delete")),  # kubeconfigs; manifests and values to keep
        # Values templates read the objects that the Cluster refers to, which may be of any provider.
        Rule("infrastructure.cluster.x-k8s.io", ("*",), ("get",)),
        Rule("infrastructure.cluster-k8s.io", ("*",), ("get",)),
        Rule("controlplane.cluster.x-k8s.io", ("*",), ("get",)),
        READ_CRDS,
    ),
    settings=(INSTALLATION, STORAGE, NETWORK),
    memory=MEMORY_TO_RENDER,
)
