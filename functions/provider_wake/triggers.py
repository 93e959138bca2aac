"""What starts `provider_wake`: the core provider, which others wait for, and Secrets and ConfigMaps that they name."""

from __future__ import annotations

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.provider import CORE, GROUP, KINDS
from shared.api.resources import CONFIG_MAP, SECRET
from shared.triggers import Rule, Triggers, Watch

TRIGGERS = Triggers(
    name="provider_wake",
    watches=(
        Watch(CORE.resource, fields=("status.conditions",), changes=("add", "update")),
        # What belongs to a Cluster is none of a provider's.
        Watch(SECRET, changes=("add", "update"), reference=True, selector=f"!{CLUSTER_NAME_LABEL}"),
        Watch(CONFIG_MAP, changes=("add", "update"), reference=True),
    ),
    rules=(Rule(GROUP, tuple(kind.resource.plural for kind in KINDS), ("get", "list")),),
)
