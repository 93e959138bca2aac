"""What starts `provider_delete`: a provider of any kind that is being deleted."""

from __future__ import annotations

from shared.api.provider import KINDS
from shared.triggers import Rule, Triggers, Watch

_PROVIDERS = tuple(kind.resource for kind in KINDS)

TRIGGERS = Triggers(
    name="provider_delete",
    several=_PROVIDERS,
    watches=tuple(
        Watch(resource, fields=("metadata.deletionTimestamp", "metadata.annotations"), changes=("update",))
        for resource in _PROVIDERS
    ),
    rules=(Rule("*", ("*",), ("get", "list", "delete", "patch")),),  # components are of any kind
)
