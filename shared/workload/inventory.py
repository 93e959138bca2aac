"""The memory of what was applied: which objects are ours, in what version, and what became of each.

Identity is (group, kind, namespace, name), never the version: an apiVersion bump is an update, not a new object.
Entries are written before anything is applied (intent) and after (result), so that a crash in between cannot orphan
an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..charts.manifests import Identity, identity
from ..kube import Object
from ..kube.resources import dig, split_api_version

SYNCED, NOT_SYNCED = "synced", "not-synced"

OWNED_LABEL, OWNED = "clusterstack.x-k8s.io/instance", "owned"
"""On every object that we apply; without it nothing is deleted."""


@dataclass(frozen=True)
class Entry:
    """One object of ours. `hash` is of the content last applied, empty before that; `uid` likewise."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    hash: str = ""
    status: str = NOT_SYNCED
    error: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(self.group, self.kind, self.namespace, self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def dump(self) -> Object:
        """The form in a status: empty fields left out."""
        return {name: value for name, value in asdict(self).items() if value}


def entry_of(obj: Object) -> Entry:
    """The intent to apply `obj`."""
    who = identity(obj)
    return Entry(who.group, split_api_version(obj["apiVersion"])[1], who.kind, who.namespace, who.name)


def load(entries: Any) -> list[Entry]:
    """The entries of a status; what is not an entry is left out."""
    known = Entry.__dataclass_fields__
    loaded = []
    for raw in entries if isinstance(entries, list) else []:
        if isinstance(raw, Mapping) and raw.get("kind") and raw.get("name"):
            fields = {name: str(raw.get(name) or "") for name in known}
            loaded.append(Entry(**{**fields, "status": fields["status"] or NOT_SYNCED}))
    return loaded


def content_hash(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def digest(objects: Sequence[Object], *context: str) -> str:
    """Names one rollout: the same objects in the same context, whatever their order."""
    whole = hashlib.sha256("\n".join(context).encode())
    for one in sorted(content_hash(obj) for obj in objects):
        whole.update(one.encode())
    return "sha256:" + whole.hexdigest()


@dataclass(frozen=True)
class Plan:
    """What a rollout has to do: `apply` these, `keep` those that it applied already, `prune` what is not wanted."""

    apply: tuple[Object, ...]
    keep: tuple[Entry, ...]
    prune: tuple[Entry, ...]


def plan(desired: Iterable[Object], inventory: Sequence[Entry], *, resumed: bool) -> Plan:
    """Compares what should be with what is ours.

    Everything desired is applied, since somebody may have changed it meanwhile; only a `resumed` rollout leaves out
    what it has applied itself, with the very same content.
    """
    known = {entry.identity: entry for entry in inventory}
    apply: list[Object] = []
    keep: list[Entry] = []
    wanted: set[Identity] = set()
    for obj in desired:
        who = identity(obj)
        wanted.add(who)
        entry = known.get(who)
        if resumed and entry and entry.status == SYNCED and entry.hash == content_hash(obj):
            keep.append(entry)
        else:
            apply.append(obj)
    prune = tuple(entry for entry in inventory if entry.identity not in wanted)
    return Plan(tuple(apply), tuple(keep), prune)


def merge_intent(plan: Plan, inventory: Sequence[Entry]) -> list[Entry]:
    """The inventory to write before the rollout: what is known of an object stays until a new result replaces it."""
    known = {entry.identity: entry for entry in inventory}
    merged = list(plan.keep)
    for obj in plan.apply:
        intent = entry_of(obj)
        before = known.get(intent.identity)
        merged.append(replace(intent, uid=before.uid) if before else intent)
    return [*merged, *plan.prune]


def is_owned(obj: Object) -> bool:
    return bool(dig(obj, ("metadata", "labels", OWNED_LABEL)) == OWNED)
