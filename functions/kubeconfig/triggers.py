"""The triggers of `kubeconfig`: the Cluster gets an endpoint, its CA is created, its kubeconfig is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import CLUSTER_NAME_LABEL, lacks_kubeconfig, wants_kubeconfig
from shared.api.names import CA_SUFFIX, KUBECONFIG_SUFFIX, cluster_of_secret
from shared.api.resources import CLUSTER, SECRET
from shared.event import Event
from shared.kube import Key, Object, dig, key_of
from shared.triggers import Rule, Triggers, Watch


def cluster_of(secret: Mapping[str, Any]) -> Key | None:
    """Returns the key of the Cluster that a CA or kubeconfig Secret belongs to."""
    return cluster_of_secret(secret, CA_SUFFIX, KUBECONFIG_SUFFIX)


def is_status_current(cluster: Mapping[str, Any]) -> bool:
    """Returns whether the status belongs to the current generation, or the Cluster is provisioned.

    The function `cluster` writes the status right after it has copied an endpoint into the spec. If this function wrote
    its condition at the same time, one of the two writes would fail with a conflict, so this function waits.
    """
    phase, observed = dig(cluster, "status.phase"), dig(cluster, "status.observedGeneration")
    return phase == "Provisioned" or (phase is not None and observed == dig(cluster, "metadata.generation"))


def cluster_with_current_status(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the key of a Cluster whose status is current; always for a bare reference, which has no status."""
    return key_of(cluster) if "spec" not in cluster or is_status_current(cluster) else None


FIELDS = (
    "spec.controlPlaneEndpoint",
    "spec.controlPlaneRef",
    "spec.paused",
    "metadata.annotations",
    "status.phase",
)


def digest(cluster: Mapping[str, Any]) -> object:
    """Returns the values of which an update must change at least one to start the function."""
    return [*(dig(cluster, path) for path in FIELDS), is_status_current(cluster)]


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the condition records that the Secret exists; an event about a Secret may contradict it."""
    if not wants_kubeconfig(cluster):
        return True
    return event.kind != SECRET.kind and event.object is not None and not lacks_kubeconfig(cluster)


TRIGGERS = Triggers(
    name="kubeconfig",
    profiles=profiles.KUBECONFIG,
    watches=(
        Watch(
            CLUSTER,
            key=cluster_with_current_status,
            fields=FIELDS,
            digest=digest,
            changes=("add", "update"),
        ),
        Watch(SECRET, key=cluster_of, reference=True, selector=CLUSTER_NAME_LABEL, needs_primary=True),
    ),
    is_reconciled=is_reconciled,
    rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER.group, ("clusters",), ("get",))),
)
