"""The events that start the phases of a provider: each phase ends with an event, which starts the next phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import provider as provider_api
from shared.event import OWN, Event, own_event
from shared.kube import Key, Object, key_of
from shared.triggers import PrimaryRef

CHANGED = "provider.changed"
"""Something that the provider depends on has changed: the first phase starts."""
CHECKED = "provider.checked"
FETCHED = "provider.fetched"
INSTALLED = "provider.installed"
"""Completed phases: the spec has passed the checks, the components are in storage, the objects are installed."""


def event_type(phase: str) -> str:
    """Returns the CloudEvent type for `CHANGED` or a completed phase such as `CHECKED`."""
    return OWN + phase


def completion_event(phase: str, provider: Object, *, resync: bool) -> Event:
    """Returns the event that a phase ends with, which starts the next phase.

    Args:
        phase: `CHANGED`, or the completed phase, such as `CHECKED`.
        provider: The provider object.
        resync: Whether the next phase must compare the objects in the cluster even if the inputs are unchanged.
    """
    about = {name: provider[name] for name in ("apiVersion", "kind", "metadata")}
    subject = f"{provider_api.kind_of(provider).type_name}-{key_of(provider).name}"
    return own_event(phase, source="/providers", subject=subject, about=about, data={}, resync=resync)


def owning_provider(obj: Mapping[str, Any]) -> PrimaryRef | None:
    """Returns the provider in the owner references of an object; None if no provider owns the object."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or []:
        kind = provider_api.BY_KIND.get(reference.get("kind", ""))
        if kind is not None and reference.get("apiVersion", "").startswith(provider_api.GROUP + "/"):
            return PrimaryRef(kind.resource, Key(key_of(obj).namespace, reference.get("name", "")))
    return None
