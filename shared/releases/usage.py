"""Which Clusters use which release: by the class that they name, in the namespace where that class is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import cluster as cluster_api
from shared.kube.resources import Key, key_of

from .naming import ReleaseName

FINALIZER = "clusterstackrelease.clusterstack.x-k8s.io"
"""Keeps a ClusterStackRelease while it is used, and until what it brought is gone."""

Users = Mapping[Key, tuple[Key, ...]]
"""ClusterStackRelease -> the Clusters whose class comes from it."""


def release_of(cluster: Mapping[str, Any]) -> Key | None:
    """The ClusterStackRelease behind a Cluster's class; None for a class that names no cluster stack."""
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    return Key(cluster_api.class_namespace(cluster), name.tag) if name else None


def users(clusters: Iterable[Mapping[str, Any]]) -> Users:
    found: dict[Key, tuple[Key, ...]] = {}
    for cluster in clusters:
        release = release_of(cluster)
        if release is not None:
            found[release] = (*found.get(release, ()), key_of(cluster))
    return found
