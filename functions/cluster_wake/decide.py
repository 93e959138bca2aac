"""Decides which objects depend on a Cluster that has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.api.conditions import READY, is_true
from shared.helm_proxies import selection
from shared.kube import Object, deleting, dig, key_of


def affected_selectors(
    objects: Iterable[Object], cluster: Object, labels: Mapping[str, str] | None, bound: Iterable[str] = ()
) -> list[Object]:
    """Returns the HelmChartProxies or ClusterResourceSets that select the Cluster, or have selected it.

    Args:
        objects: The objects of the Cluster's namespace.
        cluster: The Cluster.
        labels: Its labels; None if they are unknown.
        bound: The names of the ClusterResourceSets in the binding of the Cluster.
    """
    names = set(bound)
    return [obj for obj in objects if key_of(obj).name in names or selection.concerns(obj, cluster, labels)]


def waits_for_its_cluster(release: Mapping[str, object]) -> bool:
    """Returns whether a change of the Cluster may help a HelmReleaseProxy, which is not deployed yet or is deleted.

    A deployed release does not depend on the Cluster. Its values are in the HelmReleaseProxy.
    """
    return deleting(release) or not is_true(dig(release, "status.conditions"), READY)


def bound_sets(binding: Mapping[str, object] | None) -> list[str]:
    """Returns the names of the ClusterResourceSets in a ClusterResourceSetBinding."""
    return [str(dig(one, "clusterResourceSetName", "")) for one in dig(binding, "spec.bindings", [])]
