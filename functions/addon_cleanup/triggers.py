"""What starts `addon_cleanup`: the hook on a ClusterAddon, and the Cluster, which the sweep sends while it is going."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.hooks import BEFORE_DELETE
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import Key, deleting, dig, key_of
from shared.settings import HOOKS, NETWORK
from shared.triggers import Rule, Triggers, Watch


def asked(addon: Mapping[str, Any]) -> Key | None:
    """An addon whose clean-up is asked for, or may be: a bare reference does not tell."""
    return key_of(addon) if "spec" not in addon or dig(addon, "spec.hook") == BEFORE_DELETE else None


def going(cluster: Mapping[str, Any]) -> Key | None:
    """The addon of a Cluster that is being deleted, or may be."""
    return addon_of(cluster) if "spec" not in cluster or deleting(cluster) else None


TRIGGERS = Triggers(
    name="addon_cleanup",
    watches=(
        Watch(CLUSTER_ADDON, key=asked, fields=("spec.hook",), changes=("add", "update")),
        Watch(CLUSTER, key=going, fields=("metadata.deletionTimestamp", "metadata.annotations"), changes=("update",)),
    ),
    rules=(
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule("", ("secrets",), ("get",)),  # kubeconfigs
    ),
    settings=(HOOKS, NETWORK),
)
