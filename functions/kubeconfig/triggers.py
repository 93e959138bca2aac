"""What starts `kubeconfig`: the Cluster getting an endpoint, its CA arriving, its kubeconfig vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL, lacks_kubeconfig
from shared.api.names import CA_SUFFIX, KUBECONFIG_SUFFIX, cluster_of_secret
from shared.api.resources import CLUSTER, SECRET
from shared.kube import Key, dig, key_of
from shared.triggers import Rule, Triggers, Watch


def cluster_of(secret: Mapping[str, Any]) -> Key | None:
    return cluster_of_secret(secret, CA_SUFFIX, KUBECONFIG_SUFFIX)


def reconciled(cluster: Mapping[str, Any]) -> bool:
    """Whether the present spec was reconciled, or the Cluster came up before.

    The status is first written by who reconciles the Cluster, right after an endpoint was copied into the spec: a
    condition that is written at the same moment is a conflict for one of the two.
    """
    phase, observed = dig(cluster, "status.phase"), dig(cluster, "status.observedGeneration")
    return phase == "Provisioned" or (phase is not None and observed == dig(cluster, "metadata.generation"))


def taken_up(cluster: Mapping[str, Any]) -> Key | None:
    """A Cluster that is reconciled, or may be: a bare reference does not tell."""
    return key_of(cluster) if "spec" not in cluster or reconciled(cluster) else None


FIELDS = (
    "spec.controlPlaneEndpoint",
    "spec.controlPlaneRef",
    "spec.paused",
    "metadata.annotations",
    "status.phase",
)


def news(cluster: Mapping[str, Any]) -> object:
    """What must differ for an update to matter."""
    return [*(dig(cluster, path) for path in FIELDS), reconciled(cluster)]


TRIGGERS = Triggers(
    name="kubeconfig",
    watches=(
        Watch(
            CLUSTER,
            key=taken_up,
            fields=FIELDS,
            digest=news,
            changes=("add", "update"),
        ),
        Watch(SECRET, key=cluster_of, reference=True, selector=CLUSTER_NAME_LABEL),
    ),
    is_reconciled=lambda cluster: not lacks_kubeconfig(cluster),
    rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER.group, ("clusters",), ("get",))),
)
