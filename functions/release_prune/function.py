"""The function `release_prune`: deletes unreferenced releases that are older than `RELEASE_KEEP_HOURS` (default 24)."""

from __future__ import annotations

from datetime import datetime

from shared.api.conditions import counted
from shared.clients import Clients
from shared.kube.crds import list_defined
from shared.releases.garbage_collection import REFERRING_KINDS, collect_garbage, references
from shared.runtime.clean_up import clean_up
from shared.storage import ObjectStore

from .triggers import TRIGGERS


def _collect(clients: Clients, objects: ObjectStore, before: datetime) -> str:
    referring = (obj for kind in REFERRING_KINDS for obj in list_defined(clients.management, kind))
    collected = collect_garbage(objects, references(referring), before)
    return f"{counted(collected.releases, 'release')} and {counted(collected.blobs, 'blob')} deleted"


handle = clean_up(TRIGGERS, "releases", _collect).handle
