"""The inventory: the objects that were applied for one owner, and the state of each.

An object's identity is (group, kind, namespace, name) without the version: a new apiVersion is an update, not a new
object. The inventory is written to the owner's status before a sync (intent) and after it (result), so that a crash
in between cannot orphan an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from shared.api.conditions import counted
from shared.manifests import Identity, Operation, identity, is_hook_run, runs_in

from ..kube import Object
from ..kube.resources import split_api_version

SYNCED, NOT_SYNCED = "synced", "not-synced"
KEPT = "kept"
"""Status of an object that should be pruned but must not be, until a person decides."""

_IN_FULL, _LONG, _IN_SHORT, _SHORT = 20, 600, 100, 60
"""The number of objects whose error or wait is written at length, and the characters of each; then both numbers for
short texts. The texts of all other objects become `…`, which still shows that an error or a wait exists."""

MAX_BYTES = 1_150_000
"""The maximum number of bytes of a planned inventory, about 5,000 objects. etcd accepts 1.5 MiB; a quarter remains for
the rest of the status and for errors."""

_LONGEST_ENTRY = 1024
_APPLIED = {"uid": "u" * 36, "hash": "h" * 16, "revision": "9" * 10, "status": "not-synced"}
"""The fields that a sync adds to a planned entry, with as many characters as they get."""


@dataclass(frozen=True)
class InventoryEntry:
    """One object of the inventory.

    `uid` and `hash` (of the content) come from the last apply; they are empty before the first. `stored` is the hash of
    the content as the server stores it, empty if the server stores it unchanged. `status` is `synced` (applied or
    verified by the latest sync), `not-synced` (still to do, or failed with `error`) or `kept` (no longer desired, but
    left in the cluster until a person decides).
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
    """The stage of the release that the object belongs to; empty in a release without stages."""
    waiting: str = ""
    """Why the object is not ready yet; empty once it is."""
    stored: str = ""
    revision: str = ""
    """The resourceVersion in which the object may be pruned without a read; empty if it must be read."""

    @property
    def identity(self) -> Identity:
        """The object's identity, without the version."""
        return Identity(self.group, self.kind, self.namespace, self.name)

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_held(self) -> bool:
        """Whether the object was applied and still belongs to the owner: neither an intent alone nor kept."""
        return bool(self.uid or self.hash) and self.status != KEPT

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def dump(self) -> Object:
        """Returns the entry as it is written to a status, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}


def entry_of(obj: Object) -> InventoryEntry:
    """Returns an entry for an object that is not applied yet."""
    who = identity(obj)
    return InventoryEntry(who.group, split_api_version(obj["apiVersion"])[1], who.kind, who.namespace, who.name)


def load(entries: Any) -> list[InventoryEntry]:
    """Returns the entries of a status field; skips items that are not entries."""
    known = InventoryEntry.__dataclass_fields__
    loaded = []
    for raw in entries if isinstance(entries, list) else []:
        if isinstance(raw, Mapping) and raw.get("kind") and raw.get("name"):
            fields = {name: str(raw.get(name) or "") for name in known}
            loaded.append(InventoryEntry(**{**fields, "status": fields["status"] or NOT_SYNCED}))
    return loaded


def dump(entries: Iterable[InventoryEntry]) -> list[Object]:
    """Returns the entries as they are written to a status.

    Shortens texts, all but the first ones very much, because a workload API server may send any text, and the
    management API server limits an object to 1.5 MiB.
    """
    dumped, told = [], 0
    for entry in entries:
        told += bool(entry.error or entry.waiting)
        most = _LONG if told <= _IN_FULL else _SHORT if told <= _IN_SHORT else 0
        dumped.append(replace(entry, error=_cut(entry.error, most), waiting=_cut(entry.waiting, most)).dump())
    return dumped


def _cut(text: str, most: int) -> str:
    return text[:most] or (text and "…")


def why_too_large(plan: Plan) -> str:
    """Returns why the inventory of this sync would not fit into a status; empty if it fits."""
    entries = intent(plan)
    if len(entries) * _LONGEST_ENTRY <= MAX_BYTES:
        return ""
    size = len(json.dumps([replace(entry, **_APPLIED).dump() for entry in entries], separators=(",", ":")))
    if size <= MAX_BYTES:
        return ""
    most = len(entries) * MAX_BYTES // size
    former = len(plan.prune) + len(plan.rest)
    also = f" ({counted(former, 'object')} of earlier rollouts included)" if former else ""
    first = ", or first upgrade to a release without the objects that would be pruned" if plan.prune else ""
    return (
        f"the inventory of {counted(len(entries), 'object')}{also} is too large: it has {size} bytes, and may have "
        f"{MAX_BYTES} bytes, about {most} such objects; nothing was changed; divide the chart, and install some of its "
        f"objects by other means{first}"
    )


def content_hash(obj: Object) -> str:
    """Returns a hash of the object's content that ignores the order of keys."""
    return hashlib.sha256(json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def digest(*parts: str) -> str:
    """Returns a digest that identifies a sync by its inputs."""
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


Action = Literal["apply", "verify", "keep"]


@dataclass(frozen=True)
class Step:
    """The work of a sync on one desired object.

    `entry` is the inventory entry of the object; a new entry records the intent to apply it. `action` is `apply` (the
    content is new or changed), `verify` (apply only if the live object differs) or `keep` (this sync applied it).
    """

    obj: Object
    entry: InventoryEntry
    action: Action
    new: bool = False
    """Whether the inventory lacks the object, so that an existing object may belong to another owner."""
    operation: Operation | None = None
    """The operation of Helm that the sync corresponds to; None if the object is not of a chart."""
    run: bool = False
    """Whether the object is a hook that is created anew: its former run, which `entry.uid` names, is deleted."""

    @property
    def is_change(self) -> bool:
        """Whether an object that was applied before gets new content."""
        return self.action == "apply" and not self.new and not self.run


@dataclass(frozen=True)
class Plan:
    """The work of a sync: execute `steps`, then delete `prune`. `rest` are our other objects; they stay."""

    steps: tuple[Step, ...]
    prune: tuple[InventoryEntry, ...] = ()
    rest: tuple[InventoryEntry, ...] = ()

    @property
    def identities(self) -> set[Identity]:
        """The identities of all objects in the inventory."""
        return {entry.identity for entry in intent(self)}

    @property
    def operations(self) -> dict[Identity, Operation]:
        """The operations of Helm in which the objects are applied."""
        return {step.entry.identity: step.operation for step in self.steps if step.operation}

    def count(self, action: Action) -> int:
        """Returns the number of steps with this action."""
        return sum(step.action == action for step in self.steps)


def plan(
    desired: Iterable[Object],
    inventory: Sequence[InventoryEntry],
    *,
    resumed: bool,
    stages: Mapping[Identity, str] | None = None,
    prune: bool = True,
    operations: Mapping[str, Operation] | None = None,
) -> Plan:
    """Plans a sync: compares the desired objects with the inventory.

    New or changed content is applied. Unchanged content is verified, because the live object may have been changed. A
    resumed sync does not read objects again that it has applied or verified itself.

    Helm's hooks are applied in their operations only. Jobs, Pods and hooks that are deleted later are created anew in
    each of these (`is_hook_run`). In other operations a hook stays as it is: Helm does not change it, nor is it pruned.
    As long as its content is the same, it is verified.

    Args:
        desired: The desired objects.
        inventory: The entries of all objects that are ours.
        resumed: Whether the latest sync had the same target, so that its results still count.
        stages: The stage of each object, by identity.
        prune: Whether objects that are not desired are pruned; if not, they are left to a later plan.
        operations: The operation of Helm for the chart of each stage; without it hooks are ordinary objects.
    """
    known = {entry.identity: entry for entry in _reset_unless_resumed(inventory, resumed)}
    steps: list[Step] = []
    idle: list[InventoryEntry] = []
    for obj in desired:
        who = identity(obj)
        entry, stage = known.pop(who, None), (stages or {}).get(who, "")
        operation = (operations or {}).get(stage)
        same = entry is not None and entry.hash == content_hash(obj)
        run = operation is not None and is_hook_run(obj)
        if operation and not runs_in(obj, operation) and (run or not same):
            if entry is not None:
                idle.append(_left_as_it_is(entry))
                continue
            if run or operation != "rollback":
                continue
        if entry is not None and same and resumed and entry.status == SYNCED:
            steps.append(Step(obj, entry, "keep", operation=operation, run=run))
        elif entry is not None and same and not run:
            steps.append(Step(obj, replace(entry, stage=stage), "verify", operation=operation))
        else:
            fresh = replace(entry_of(obj), uid=entry.uid if entry else "", stage=stage)
            new = entry is None or not entry.is_held
            steps.append(Step(obj, fresh, "apply", new=new, operation=operation, run=run))
    others = tuple(known.values())
    return Plan(tuple(steps), others, tuple(idle)) if prune else Plan(tuple(steps), (), (*others, *idle))


def _left_as_it_is(entry: InventoryEntry) -> InventoryEntry:
    """Returns the entry of a hook that the sync neither applies nor prunes."""
    if entry.status == KEPT:
        return entry
    return replace(entry, status=SYNCED if entry.is_held else NOT_SYNCED, waiting="", error="")


def deletion(unwanted: Iterable[Object], inventory: Sequence[InventoryEntry], *, resumed: bool) -> Plan:
    """Plans the deletion of the objects that are ours; all others are left to a later plan."""
    known = {entry.identity: entry for entry in _reset_unless_resumed(inventory, resumed)}
    gone = tuple(known.pop(identity(obj), entry_of(obj)) for obj in unwanted)
    return Plan((), gone, tuple(known.values()))


def _reset_unless_resumed(inventory: Sequence[InventoryEntry], resumed: bool) -> Sequence[InventoryEntry]:
    """Returns the entries; for a new sync, they are marked as not synced.

    So a resumed sync skips only what this sync itself has synced.
    """
    if resumed:
        return inventory
    return [entry if entry.status == KEPT else replace(entry, status=NOT_SYNCED) for entry in inventory]


def intent(plan: Plan) -> list[InventoryEntry]:
    """Returns the inventory to write before the sync."""
    return [*(step.entry for step in plan.steps), *plan.rest, *plan.prune]
