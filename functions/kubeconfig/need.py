"""Determines from a Cluster alone whether this function creates its kubeconfig, and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.core import core_state
from shared.kube import deleting, dig


def why_not_now(cluster: Mapping[str, Any]) -> str:
    """Returns why this function does not create the Cluster's kubeconfig, or not yet; empty if it does.

    No condition reports these reasons, because the Cluster's spec or its other conditions show them.
    """
    if deleting(cluster):
        return "being deleted"
    if cluster_api.is_paused(cluster):
        return "paused"
    if cluster_api.control_plane_ref(cluster):
        return "the control-plane provider creates the kubeconfig"
    if not is_status_current(cluster):
        return "waiting until status.observedGeneration of the Cluster is current"
    if cluster_api.endpoint(cluster) is None:
        return "waiting for spec.controlPlaneEndpoint"
    return ""


def is_status_current(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the status belongs to the current generation, or the Cluster is provisioned.

    The function `cluster` writes the status right after it has copied an endpoint into the spec. If this function wrote
    its condition at the same time, one of the two writes would fail with a conflict, so this function waits.
    """
    phase, observed = dig(cluster, "status.phase"), dig(cluster, "status.observedGeneration")
    return phase == "Provisioned" or (phase is not None and observed == dig(cluster, "metadata.generation"))


def is_managed_by_core(cluster: Mapping[str, Any], now: datetime) -> bool:
    """Returns whether Cluster API core manages the Cluster, and so creates its kubeconfig."""
    return core_state(dict(cluster), now) in ("live", "late")
