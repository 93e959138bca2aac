"""Which Clusters a HelmChartProxy selects, and which HelmReleaseProxy belongs to which Cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.kube import Object, deleting, dig, key_of
from shared.kube.selectors import selects


def concerns(proxy: Mapping[str, Any], cluster: Mapping[str, Any], labels: Mapping[str, str] | None) -> bool:
    """Returns whether a HelmChartProxy selects a Cluster, or did so when its status was written.

    Args:
        proxy: The HelmChartProxy, or another object with `spec.clusterSelector` and `status.matchingClusters`.
        cluster: The Cluster.
        labels: The labels of the Cluster; None if they are unknown, and then every selector may select it.
    """
    name = key_of(cluster).name
    if any(dig(one, "name") == name for one in dig(proxy, "status.matchingClusters", [])):
        return True
    return labels is None or selects(dig(proxy, "spec.clusterSelector", {}), labels)


def cluster_of(release: Mapping[str, Any]) -> str:
    """Returns the name of the Cluster that a HelmReleaseProxy belongs to."""
    return str(dig(release, "spec.clusterRef.name", ""))


def by_cluster(releases: Iterable[Object]) -> dict[str, list[Object]]:
    """Returns HelmReleaseProxies by the names of their Clusters."""
    found: dict[str, list[Object]] = {}
    for release in releases:
        found.setdefault(cluster_of(release), []).append(release)
    return found


def orphans(releases: Iterable[Object], selected: Iterable[Object]) -> list[Object]:
    """Returns the HelmReleaseProxies whose Clusters are not among the selected ones, without those being deleted."""
    names = {key_of(cluster).name for cluster in selected}
    return [release for release in releases if cluster_of(release) not in names and not deleting(release)]
