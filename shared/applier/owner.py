"""The owner on whose behalf objects are applied, and the marks by which its objects are recognised.

The caller gives the owner: nothing in this package names a product. All objects of a sort of owners carry the same
labels, which are enough if an owner has a cluster to itself. Where several owners apply to one cluster, the mark of an
object names its owner. An exclusive owner takes over no object of others. It trusts neither labels, because people copy
them, nor inventories, because people edit them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.manifests import Identity, identity

from ..kube import MANAGER, Client, Object, dig
from .inventory import InventoryEntry

Claim = Callable[[Client, str, Identity], str]
"""Returns the name of the owner with this mark if it needs the object, else "". Raises `ApiError`."""

Precedence = Callable[[str], str | None]
"""Returns why an exclusive owner may not take objects with this mark; "" if it may, None if no rule covers the two.
Raises `ApiError`."""

_MAX_SHOWN = 120
"""Characters of a foreign mark in messages: annotations may have any length."""


def _no_claim(_client: Client, _mark: str, _who: Identity) -> str:
    return ""


def _no_precedence(_mark: str) -> str | None:
    return None


@dataclass(frozen=True)
class Mark:
    """The labels, or the annotations, whose values name one owner among several; without values there is one owner."""

    values: Mapping[str, str] = field(default_factory=dict)
    place: Literal["labels", "annotations"] = "labels"

    def __bool__(self) -> bool:
        return bool(self.values)

    def __str__(self) -> str:
        """Returns the values, separated by slashes."""
        return "/".join(self.values.values())

    def of(self, obj: Mapping[str, Any]) -> str:
        """Returns the mark of an object in the form of `str`, empty if it has none."""
        values = [str(dig(obj, ("metadata", self.place, name), "")) for name in self.values]
        return "/".join(values) if any(values) else ""

    @property
    def names(self) -> str:
        """The names of the labels or annotations, for messages."""
        return f"{self.place if len(self.values) > 1 else self.place[:-1]} {', '.join(self.values)}"


@dataclass(frozen=True)
class Owner:
    """The owner of applied objects."""

    kind: str
    """The kind of the object that carries the policy annotations, for messages."""
    labels: Mapping[str, str]
    """The labels, at least one, of all objects of such owners. An object without them is never deleted."""
    mark: Mark = field(default_factory=Mark)
    manager: str = MANAGER
    """The field manager of all writes."""
    claim: Claim = _no_claim
    exclusive: bool = False
    """Whether this owner only owns objects that it has marked and applied itself, or that are `recorded`."""
    recorded: frozenset[tuple[Identity, str]] = frozenset()
    """Objects without a mark that an exclusive owner has applied: identity and uid, which is empty if it is unknown."""
    trusts_mark: bool = False
    """Whether an exclusive owner trusts its mark on an object that another field manager wrote."""
    adopts: bool = False
    """Whether an exclusive owner takes over unmarked objects. If it trusts marks, it takes over marked objects, too."""
    precedence: Precedence = _no_precedence
    """The rule between owners with marks. It comes before `adopts`."""
    adopts_if: str = ""
    """The action by which a person lets an exclusive owner take over objects without a mark, for messages."""

    @property
    def selector(self) -> str:
        """The label selector of the objects of all such owners."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())

    def marked(self, obj: Object) -> Object:
        """Returns the object with the labels and the mark of this owner."""
        metadata = {**obj["metadata"], "labels": {**(dig(obj, "metadata.labels") or {}), **self.labels}}
        if self.mark:
            metadata[self.mark.place] = {**(metadata.get(self.mark.place) or {}), **self.mark.values}
        return {**obj, "metadata": metadata}

    def has_labels(self, obj: Mapping[str, Any]) -> bool:
        """Returns whether an object has the labels of such owners."""
        return all(dig(obj, ("metadata", "labels", name)) == value for name, value in self.labels.items())

    def has_applied(self, entry: Mapping[str, Any]) -> bool:
        """Returns whether an entry of `managedFields` belongs to server-side apply by this owner's field manager."""
        return (
            entry.get("manager") == self.manager and entry.get("operation") == "Apply" and not entry.get("subresource")
        )

    def has(self, live: Object, entry: InventoryEntry | None = None) -> bool:
        """Returns whether a live object belongs to this owner, and is the object of the inventory `entry`.

        An object with another uid counts as the entry's object if it has the mark and we applied it, because the
        process may have ended before it recorded the new uid. Labels alone do not prove this, because people copy them.
        """
        found, uid = self.mark.of(live), dig(live, "metadata.uid", "")
        if not self.has_labels(live) or found not in ("", str(self.mark)):
            return False
        if found and self.trusts_mark:
            return True
        if found and any(self.has_applied(each) for each in dig(live, "metadata.managedFields", [])):
            return True
        if self.exclusive:
            who = entry.identity if entry else identity(live)
            if self.recorded.isdisjoint({(who, ""), (who, uid)}):
                return False
        return entry is None or entry.uid in ("", uid)

    def refusal(self, live: Object) -> str:
        """Returns why an exclusive owner must not apply over a live object, and the way out; empty if it may.

        Raises `ApiError` if the precedence of the two owners cannot be read.
        """
        mark = self.mark.of(live)
        if not self.exclusive or self.has(live):
            return ""
        if mark and (kept := self.precedence(mark)) is not None:
            return kept
        if self.adopts and (self.trusts_mark or not mark):
            return ""
        if mark:
            whose = f"{self.mark.names} {'name' if len(self.mark.values) > 1 else 'names'} {mark[:_MAX_SHOWN]!r}"
            adopt = f", or {self.adopts_if}" if self.trusts_mark and self.adopts_if else ""
            return f"it exists and its {whose}: delete or rename one of the two objects{adopt}"
        managers = {str(entry.get("manager")) for entry in dig(live, "metadata.managedFields", [])}
        writers = f", written by {', '.join(sorted(managers)[:3])}" if managers else ""
        adopt = (
            f", or {self.adopts_if} to have the object adopted, and deleted once it is obsolete"
            if self.adopts_if
            else ""
        )
        return (
            f"it exists{writers}, and was not applied for {self.mark}: delete or rename one of the two objects{adopt}"
        )
