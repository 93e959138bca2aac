"""What starts `provider_wake`: the core provider, which others wait for, and Secrets and ConfigMaps that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.provider import CORE, GROUP, KINDS, PROVIDER_LABEL
from shared.api.resources import CONFIG_MAP, SECRET
from shared.event import REFERENCE
from shared.kube import Key, key_of
from shared.providers.peers import works
from shared.triggers import Rule, Triggers, Watch


def working(core: Mapping[str, Any]) -> Key | None:
    """A core provider that others need not wait for any more, or may be one: a bare reference does not tell."""
    return key_of(core) if "spec" not in core or works(core) else None


# What belongs to a Cluster is none of a provider's, nor is what providers have brought themselves.
_INPUTS = f"!{CLUSTER_NAME_LABEL},!{PROVIDER_LABEL}"

TRIGGERS = Triggers(
    name="provider_wake",
    watches=(
        Watch(CORE.resource, key=working, fields=("status.conditions",), digest=works, changes=("add", "update")),
        Watch(SECRET, changes=("add", "update"), reference=True, selector=_INPUTS),
        Watch(CONFIG_MAP, changes=("add", "update"), reference=True, selector=f"!{PROVIDER_LABEL}"),
    ),
    rules=(
        Rule(GROUP, tuple(kind.resource.plural for kind in KINDS), ("get", "list")),
        Rule(CONFIG_MAP.group, (CONFIG_MAP.plural,), ("get",)),  # selectors look at its labels; a Secret is named
    ),
    emits=(REFERENCE + "update",),
    reports=False,
)
