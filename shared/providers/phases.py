"""The events that connect a provider's phases: each phase replies with the event that starts the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import provider as provider_api
from shared.event import OWN, Event, own_event
from shared.kube import Key, Object, key_of
from shared.triggers import PrimaryRef

CHECKED = "provider.checked"
FETCHED = "provider.fetched"
INSTALLED = "provider.installed"
"""The steps: the spec has passed the checks, the components are in storage, the objects are installed."""


def event_type(step: str) -> str:
    """Returns the CloudEvent type of a step such as `CHECKED`."""
    return OWN + step


def next_step(step: str, provider: Object, *, resync: bool) -> Event:
    """Returns the event that starts the next phase.

    Args:
        step: The step that is done, such as `CHECKED`.
        provider: The provider object.
        resync: Whether the next phase compares the objects in the cluster even if nothing else has changed.
    """
    about = {name: provider[name] for name in ("apiVersion", "kind", "metadata")}
    subject = f"{provider_api.kind_of(provider).type_name}-{key_of(provider).name}"
    return own_event(step, source="/providers", subject=subject, about=about, data={}, resync=resync)


def provider_key(event: Event) -> Key | None:
    """Returns the key of the provider that the event is about; None for objects of other kinds."""
    return event.key if event.kind in provider_api.BY_KIND else None


def owning_provider(obj: Mapping[str, Any]) -> PrimaryRef | None:
    """Returns the provider that an installed object's owner references name; None if there is none."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or []:
        kind = provider_api.BY_KIND.get(reference.get("kind", ""))
        if kind is not None and reference.get("apiVersion", "").startswith(provider_api.GROUP + "/"):
            return PrimaryRef(kind.resource, Key(key_of(obj).namespace, reference.get("name", "")))
    return None
