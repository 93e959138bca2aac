"""Starts `cluster_wake` when a Cluster changes, or a Secret with a kubeconfig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.names import KUBECONFIG_SUFFIX, cluster_of_secret
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    SECRET,
)
from shared.kube import Key, dig, key_of
from shared.triggers import READ_CRDS, Referrer, Rule, Triggers, Watch
from shared.wake import CHANGED


def relevant_in_cluster(cluster: Mapping[str, Any]) -> object:
    """Returns the values of a Cluster whose change starts the functions of objects that select the Cluster.

    They are the labels, for selectors; whether the API server is reachable; and the fields that values templates read
    most.
    """
    metadata = [dig(cluster, f"metadata.{name}") for name in ("generation", "deletionTimestamp", "labels")]
    annotations = {
        name: value
        for name, value in dig(cluster, "metadata.annotations", {}).items()
        if name != "kubectl.kubernetes.io/last-applied-configuration"
    }
    status = [dig(cluster, f"status.{name}") for name in ("initialization", "failureDomains")]
    return [*metadata, annotations, cluster_api.control_plane_initialized(cluster), *status]


def cluster_of_kubeconfig(secret: Mapping[str, Any]) -> Key | None:
    """Returns the key of the Cluster of a kubeconfig Secret; None for other Secrets."""
    return cluster_of_secret(secret, KUBECONFIG_SUFFIX)


def any_of_its_namespace(selecting: Mapping[str, Any]) -> Iterable[Key]:
    """Returns the key that stands for all objects of the namespace, because a selector may select any Cluster."""
    return [Key(key_of(selecting).namespace, "")]


_SELECTING = tuple(Referrer(kind, any_of_its_namespace) for kind in (HELM_CHART_PROXY, CLUSTER_RESOURCE_SET))
"""If a namespace has no such object, as in most installations, the changes of its Clusters are not delivered."""

TRIGGERS = Triggers(
    name="cluster_wake",
    profiles=profiles.ADDONS,
    watches=(
        Watch(CLUSTER, digest=relevant_in_cluster, referenced_by=_SELECTING),
        Watch(
            SECRET,
            key=cluster_of_kubeconfig,
            reference=True,
            selector=CLUSTER_NAME_LABEL,
            changes=("add", "update"),
            referenced_by=_SELECTING,
        ),
    ),
    rules=(
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule(
            HELM_CHART_PROXY.group,
            tuple(
                kind.plural
                for kind in (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING)
            ),
            ("get", "list"),
        ),
        READ_CRDS,
    ),
    emits=(CHANGED,),
    reports=False,
)
