"""Which Clusters a HelmChartProxy selects, and which HelmReleaseProxy belongs to which Cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.kube import Object, deleting, dig, key_of
from shared.kube.selectors import as_text, parse, selects

_WITH_VALUES = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


def selector_text(selector: Mapping[str, Any]) -> str:
    """Returns a LabelSelector object in its text form; empty for a selector that selects everything.

    Raises `ValueError` for a selector that Kubernetes refuses; the message cites the requirement.
    """
    for one in selector.get("matchExpressions") or []:
        key, operator, values = one.get("key", ""), one.get("operator", ""), one.get("values") or []
        if operator not in _WITH_VALUES:
            raise ValueError(f"{operator[:50]!r} is not a label selector operator: use {', '.join(_WITH_VALUES)}")
        if bool(values) != _WITH_VALUES[operator]:
            needed = "needs values" if _WITH_VALUES[operator] else "takes no values"
            raise ValueError(f"invalid label selector for the label {key[:100]!r}: {operator} {needed}")
    text = as_text(selector)
    parse(text)
    return text


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
