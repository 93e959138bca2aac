"""Determines the Clusters that use a release, by name and namespace of their ClusterClass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import cluster as cluster_api
from shared.kube.resources import Key, key_of

from .naming import ReleaseName

FINALIZER = "clusterstackrelease.clusterstack.x-k8s.io"
"""Keeps a ClusterStackRelease while Clusters use it, and until the objects of its class are deleted."""

Users = Mapping[Key, tuple[Key, ...]]
"""The Clusters that use each ClusterStackRelease."""


def release_of(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the ClusterStackRelease of a Cluster's class; None if the class is not of a cluster stack."""
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    return Key(cluster_api.class_namespace(cluster), name.tag) if name else None


def users_by_release(clusters: Iterable[Mapping[str, Any]]) -> Users:
    """Returns the Clusters by the ClusterStackRelease that they use."""
    found: dict[Key, tuple[Key, ...]] = {}
    for cluster in clusters:
        release = release_of(cluster)
        if release is not None:
            found[release] = (*found.get(release, ()), key_of(cluster))
    return found
