"""What starts `team_label`: a Cluster without the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import is_paused
from shared.api.resources import CLUSTER, NAMESPACE
from shared.kube import deleting, dig
from shared.triggers import Rule, Triggers, Watch, label

LABEL = "example.org/team"


def is_labelled(cluster: Mapping[str, Any]) -> bool:
    """Whether the Cluster has the label, or must not be changed now."""
    return deleting(cluster) or is_paused(cluster) or LABEL in dig(cluster, "metadata.labels", {})


TRIGGERS = Triggers(
    name="team_label",
    watches=(
        Watch(
            CLUSTER,
            fields=("spec.paused", "metadata.annotations", label(LABEL)),
            changes=("add", "update"),
        ),
    ),
    rules=(
        Rule(CLUSTER.group, (CLUSTER.plural,), ("patch",)),
        Rule(NAMESPACE.group, (NAMESPACE.plural,), ("get",)),
    ),
    is_reconciled=lambda cluster, _event, _now: is_labelled(cluster),
)
