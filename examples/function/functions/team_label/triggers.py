"""Starts `team_label` when a Cluster is created, or loses the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import PAUSING, is_paused
from shared.api.resources import CLUSTER, NAMESPACE
from shared.kube import deleting, dig
from shared.triggers import Rule, Triggers, Watch, label

LABEL = "example.org/team"


def is_labelled(cluster: Mapping[str, Any]) -> bool:
    """Whether the Cluster has the label, or must not be changed now."""
    return deleting(cluster) or is_paused(cluster) or LABEL in dig(cluster, "metadata.labels", {})


TRIGGERS = Triggers(
    name="team_label",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER,
            fields=(*PAUSING, label(LABEL)),
            changes=("add", "update"),
            filtered=True,
        ),
    ),
    rules=(
        Rule(CLUSTER.group, (CLUSTER.plural,), ("patch",)),
        Rule(NAMESPACE.group, (NAMESPACE.plural,), ("get",)),
    ),
    is_reconciled=lambda cluster, _event, _now: is_labelled(cluster),
)
