"""The RBAC rules and settings of `cluster_hooks`, which has no triggers because Cluster API calls it."""

from __future__ import annotations

from shared.api.resources import CLUSTER, CLUSTER_ADDON, HELM_RELEASE_PROXY
from shared.settings import HOOKS, INSTALLATION
from shared.triggers import Rule, Triggers

ACCESS = Triggers(
    name="cluster_hooks",
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "patch")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule(HELM_RELEASE_PROXY.group, (HELM_RELEASE_PROXY.plural,), ("list", "delete")),
        Rule("", ("events",), ("create",)),
    ),
    settings=(INSTALLATION, HOOKS),
)
