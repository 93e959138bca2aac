"""The function `component_prune`: deletes unused components that are older than `RELEASE_KEEP_HOURS` (default 24)."""

from __future__ import annotations

from datetime import datetime

from shared.api.conditions import counted
from shared.api.provider import KINDS
from shared.clients import Clients
from shared.components.bundles import collect_garbage, digests_in_use
from shared.providers.peers import list_providers
from shared.runtime.clean_up import clean_up
from shared.storage import ObjectStore

from .triggers import TRIGGERS


def _collect(clients: Clients, objects: ObjectStore, before: datetime) -> str:
    deleted = collect_garbage(objects, digests_in_use(list_providers(clients, *KINDS)), before)
    return f"{counted(deleted, 'bundle')} deleted"


handle = clean_up(TRIGGERS, "components", _collect).handle
