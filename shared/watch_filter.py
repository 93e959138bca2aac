"""Cluster API's watch filter: an installation reconciles only Clusters and KINDClusters with its value of a label.

Cluster API's managers have the same filter as the flag `--watch-filter`. A ClusterAddon is filtered by the label of its
Cluster, and by its own copy of that label once the Cluster is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kube.resources import dig
from .settings import SETTINGS

LABEL = "cluster.x-k8s.io/watch-filter"
SETTING = "CAPI_FUNCTIONS_WATCH_FILTER"


class Filtered(Exception):
    """The watch filter of this installation excludes an object."""


def value_of(obj: Mapping[str, Any]) -> str | None:
    """Returns the value of the object's label; None if the object lacks the label."""
    value = dig(obj, ("metadata", "labels", LABEL))
    return value if isinstance(value, str) else None


def labels(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Returns the label that an object for this Cluster gets; empty if the Cluster lacks the label."""
    value = value_of(cluster)
    return {} if value is None else {LABEL: value}


def is_same(addon: Mapping[str, Any], cluster: Mapping[str, Any]) -> bool:
    """Returns whether both objects have the same value of the label, or both lack the label."""
    return value_of(addon) == value_of(cluster)


def admits(obj: Mapping[str, Any]) -> bool:
    """Returns whether the object has the label of this installation's filter; always without a filter."""
    wanted = SETTINGS.get(SETTING)
    return not wanted or value_of(obj) == wanted


def require(obj: Mapping[str, Any]) -> None:
    """Raises `Filtered` if the filter excludes the object."""
    if not admits(obj):
        raise Filtered(f"the {obj.get('kind')} does not have the label {LABEL}={SETTINGS.get(SETTING)}")
