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
from typing import Any, Literal

from shared.manifests import Identity, identity

from ..kube import Object
from ..kube.resources import dig, split_api_version

SYNCED, NOT_SYNCED = "synced", "not-synced"
KEPT = "kept"
"""Status of what is not wanted, and stays in the cluster and in the inventory until somebody decides."""

_IN_FULL, _SHORT = 20, 60
"""So many failures are told in full, the others in so many characters."""

OWNED_LABEL, OWNED = "clusterstack.x-k8s.io/instance", "owned"
"""On every object that we apply; without it nothing is deleted."""


@dataclass(frozen=True)
class InventoryEntry:
    """One object of ours. `hash` is of the content last applied, empty before that; `uid` likewise.

    `stored` is the hash of that content as the server stores it, empty where it stores it as it was applied.
    """

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    hash: str = ""
    status: str = NOT_SYNCED
    error: str = ""
    stage: str = ""
    """The stage of the release that it belongs to, where there are stages."""
    waiting: str = ""
    """Why it is not ready yet."""
    stored: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(self.group, self.kind, self.namespace, self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_held(self) -> bool:
        """Whether the object is ours as it was applied: not only meant to be, and not left to whoever needs it."""
        return bool(self.uid or self.hash) and self.status != KEPT

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def dump(self) -> Object:
        """The form in a status: empty fields left out."""
        return {name: value for name, value in asdict(self).items() if value}


def entry_of(obj: Object) -> InventoryEntry:
    """The intent to apply `obj`."""
    who = identity(obj)
    return InventoryEntry(who.group, split_api_version(obj["apiVersion"])[1], who.kind, who.namespace, who.name)


def load(entries: Any) -> list[InventoryEntry]:
    """The entries of a status; what is not an entry is left out."""
    known = InventoryEntry.__dataclass_fields__
    loaded = []
    for raw in entries if isinstance(entries, list) else []:
        if isinstance(raw, Mapping) and raw.get("kind") and raw.get("name"):
            fields = {name: str(raw.get(name) or "") for name in known}
            loaded.append(InventoryEntry(**{**fields, "status": fields["status"] or NOT_SYNCED}))
    return loaded


def dump(entries: Iterable[InventoryEntry]) -> list[Object]:
    """The form in a status, which `load` reads. Of many failures most are told in short: an object has 1.5 MiB."""
    dumped, failed = [], 0
    for entry in entries:
        failed += bool(entry.error)
        dumped.append(replace(entry, error=entry.error[:_SHORT] if failed > _IN_FULL else entry.error).dump())
    return dumped


def content_hash(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def digest(*parts: str) -> str:
    """Names a rollout by what it is made of."""
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


Action = Literal["apply", "verify", "keep"]


@dataclass(frozen=True)
class Step:
    """What to do about one wanted object. `entry` is what is known of it, or the intent."""

    obj: Object
    entry: InventoryEntry
    action: Action
    new: bool = False
    """Nothing says that the object is ours yet, if it is there."""


@dataclass(frozen=True)
class Plan:
    """What a rollout has to do: its steps, then prune what is not wanted. `rest` is ours and no concern of it."""

    steps: tuple[Step, ...]
    prune: tuple[InventoryEntry, ...] = ()
    rest: tuple[InventoryEntry, ...] = ()

    @property
    def identities(self) -> set[Identity]:
        """All that is in this inventory."""
        return {entry.identity for entry in intent(self)}

    def count(self, action: Action) -> int:
        return sum(step.action == action for step in self.steps)


def plan(
    desired: Iterable[Object],
    inventory: Sequence[InventoryEntry],
    *,
    resumed: bool,
    stages: Mapping[Identity, str] | None = None,
    prune: bool = True,
) -> Plan:
    """Compares what should be with what is ours.

    Content that is new is applied. The same content as last time is verified, since somebody may have changed it
    meanwhile; a `resumed` rollout keeps unseen what it has applied or verified itself. Without `prune` everything else
    is left to a later plan. `stages` says which stage an object belongs to.
    """
    known = {entry.identity: entry for entry in _reset_unless_resumed(inventory, resumed)}
    steps = []
    for obj in desired:
        who = identity(obj)
        entry, stage = known.pop(who, None), (stages or {}).get(who, "")
        if entry is None or entry.hash != content_hash(obj):
            fresh = replace(entry_of(obj), uid=entry.uid if entry else "", stage=stage)
            steps.append(Step(obj, fresh, "apply", new=entry is None or not entry.is_held))
        elif resumed and entry.status == SYNCED:
            steps.append(Step(obj, entry, "keep"))
        else:
            steps.append(Step(obj, replace(entry, stage=stage), "verify"))
    others = tuple(known.values())
    return Plan(tuple(steps), others, ()) if prune else Plan(tuple(steps), (), others)


def deletion(unwanted: Iterable[Object], inventory: Sequence[InventoryEntry], *, resumed: bool) -> Plan:
    """Deletes these objects, as far as they are ours, and leaves everything else to a later plan."""
    known = {entry.identity: entry for entry in _reset_unless_resumed(inventory, resumed)}
    gone = tuple(known.pop(identity(obj), entry_of(obj)) for obj in unwanted)
    return Plan((), gone, tuple(known.values()))


def _reset_unless_resumed(inventory: Sequence[InventoryEntry], resumed: bool) -> Sequence[InventoryEntry]:
    """In a new rollout nothing counts as done, so that what resumes it, or a later stage, knows what it did itself."""
    if resumed:
        return inventory
    return [entry if entry.status == KEPT else replace(entry, status=NOT_SYNCED) for entry in inventory]


def intent(plan: Plan) -> list[InventoryEntry]:
    """The inventory to write before the rollout."""
    return [*(step.entry for step in plan.steps), *plan.rest, *plan.prune]


def is_owned(obj: Object) -> bool:
    return bool(dig(obj, ("metadata", "labels", OWNED_LABEL)) == OWNED)
