"""Accessors of ClusterAddons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from shared.kube.resources import dig

AddonCondition = Literal[
    "ClusterReady",
    "ClusterStackReleaseDownloaded",
    "ClusterAddonConfigValidated",
    "HelmChartTemplated",
    "EvaluatedCEL",
    "HelmChartDeleted",
    "HelmChartApplied",
    "GeneratedValuesKept",
    "ObjectsReady",
    "WorkloadCleanedUp",
]
"""The conditions that functions write."""


def reported_release(addon: Mapping[str, Any]) -> str:
    """Returns the tag of the release that the status is about, empty if none is recorded.

    cluster-stack-operator writes no `status.release`, so such a status is about the release in the spec.
    """
    return str(dig(addon, "status.release") or dig(addon, "spec.clusterStack", ""))
