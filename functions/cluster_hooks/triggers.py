"""`cluster_hooks` is called by Cluster API, not by events: all there is to declare is what it may do."""

from __future__ import annotations

from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.settings import HOOKS
from shared.triggers import Rule, Triggers

TRIGGERS = Triggers(
    name="cluster_hooks",
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "patch")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule("", ("events",), ("create",)),
    ),
    settings=(HOOKS,),
)
