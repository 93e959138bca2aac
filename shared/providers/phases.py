"""How the phases follow each other: each replies with the event that starts the next, and may be started alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import provider as provider_api
from shared.event import OWN, Event, own_event
from shared.kube import Key, Object, key_of
from shared.triggers import Subject

CHECKED = "provider.checked"
FETCHED = "provider.fetched"
INSTALLED = "provider.installed"


def type_of(step: str) -> str:
    return OWN + step


def next_step(step: str, provider: Object, *, resync: bool) -> Event:
    """The event that starts the next phase; with `resync` it looks at the objects in the cluster, too."""
    about = {name: provider[name] for name in ("apiVersion", "kind", "metadata")}
    subject = f"{provider_api.kind_of(provider).word}-{key_of(provider).name}"
    return own_event(step, source="/providers", subject=subject, about=about, data={}, resync=resync)


def about(event: Event) -> Key | None:
    return event.key if event.kind in provider_api.BY_KIND else None


def owner(obj: Mapping[str, Any]) -> Subject | None:
    """The provider that an installed object belongs to, by its owner reference."""
    for reference in (obj.get("metadata") or {}).get("ownerReferences") or []:
        kind = provider_api.BY_KIND.get(reference.get("kind", ""))
        if kind is not None and reference.get("apiVersion", "").startswith(provider_api.GROUP + "/"):
            return Subject(kind.resource, Key(key_of(obj).namespace, reference.get("name", "")))
    return None
