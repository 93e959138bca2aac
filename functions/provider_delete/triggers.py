"""Starts `provider_delete` when a provider of any kind is being deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.provider import FINALIZER, GROUP, PLURALS, RESOURCES
from shared.event import is_reference
from shared.kube.resources import Key, deleting, key_of
from shared.triggers import ANNOTATIONS, Rule, Triggers, Watch

_FIELDS = ("metadata.deletionTimestamp", ANNOTATIONS)


def key_if_deleting(provider: Mapping[str, Any]) -> Key | None:
    """Returns the key of a provider that is being deleted or of a bare reference, which cannot show it; else None."""
    return key_of(provider) if is_reference(provider) or deleting(provider) else None


TRIGGERS = Triggers(
    name="provider_delete",
    profiles=profiles.PROVIDERS,
    primary_kinds=RESOURCES,
    finalizer=FINALIZER,
    watches=tuple(Watch(resource, key=key_if_deleting, fields=_FIELDS, changes=("update",)) for resource in RESOURCES),
    rules=(
        Rule("*", ("*",), ("get", "list", "delete")),  # components are of any kind
        Rule(GROUP, PLURALS, ("patch",)),  # the finalizer
    ),
)
