"""What starts `kubeconfig`: the Cluster getting an endpoint, its CA arriving, its kubeconfig vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL, endpoint
from shared.api.names import CA_SUFFIX, KUBECONFIG_SUFFIX, cluster_of_secret
from shared.api.resources import CLUSTER, SECRET
from shared.kube import Key, dig, key_of
from shared.triggers import Rule, Triggers, Watch


def cluster_of(secret: Mapping[str, Any]) -> Key | None:
    return cluster_of_secret(secret, CA_SUFFIX, KUBECONFIG_SUFFIX)


def taken_up(cluster: Mapping[str, Any]) -> Key | None:
    """A Cluster that has its endpoint, or at least a phase, or may have: a bare reference does not tell.

    Before that there is nothing to do, and to say so would be a race with whoever writes the Cluster's first status.
    """
    known = "spec" not in cluster or endpoint(cluster) or dig(cluster, "status.phase")
    return key_of(cluster) if known else None


TRIGGERS = Triggers(
    name="kubeconfig",
    watches=(
        Watch(
            CLUSTER,
            key=taken_up,
            fields=(
                "spec.controlPlaneEndpoint",
                "spec.controlPlaneRef",
                "spec.paused",
                "metadata.annotations",
                "status.phase",
            ),
            changes=("add", "update"),
        ),
        Watch(SECRET, key=cluster_of, reference=True, selector=CLUSTER_NAME_LABEL),
    ),
    rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER.group, ("clusters",), ("get",))),
)
