"""The owner on whose behalf objects are applied, and the mark by which its objects are recognised.

All applied objects carry one common label. That is enough for addons, which have a workload cluster to themselves.
Where several owners apply to one cluster, the value of another label is each owner's mark. An exclusive owner takes
over no object of others: labels alone prove nothing to it, because people copy them, and inventories can be edited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.manifests import Identity, identity

from ..api.names import ADOPT_ANNOTATION
from ..kube import Client, Object, dig
from .adoption import is_applied_by_us
from .inventory import InventoryEntry, is_owned

Claim = Callable[[Client, str, Identity], str]
"""Returns the name of the owner that has this mark and needs the object, empty if there is none; raises `ApiError`."""


def _no_claim(_client: Client, _mark: str, _who: Identity) -> str:
    return ""


@dataclass(frozen=True)
class Owner:
    """The owner of applied objects; `kind` is the kind of the object that carries the policy annotations."""

    kind: str = "Cluster"
    label: str = ""
    """The name of the label that carries the mark; empty if the common label is enough."""
    mark: str = ""
    """The value of that label on the objects of this owner."""
    claim: Claim = _no_claim
    exclusive: bool = False
    """Whether only objects count as this owner's that it has marked and applied itself, or that are `recorded`."""
    recorded: frozenset[tuple[Identity, str]] = frozenset()
    """Objects without a mark that an exclusive owner has applied: identity and uid, which is empty if it is unknown."""
    adopts: bool = False
    """Whether an exclusive owner takes over objects without a mark."""

    def mark_of(self, live: Object) -> str:
        """Returns the mark of the owner of a live object, empty if it has none."""
        return str(dig(live, ("metadata", "labels", self.label), "")) if self.label else ""

    def has(self, live: Object, entry: InventoryEntry | None = None) -> bool:
        """Returns whether a live object belongs to this owner, and is the object of the inventory `entry`.

        An object with another uid counts as the entry's object if it has the mark and was applied by us, because the
        process may have ended before it recorded a new uid. The labels alone do not prove this, since people copy them.
        """
        found, uid = self.mark_of(live), dig(live, "metadata.uid", "")
        if not is_owned(live) or found not in ("", self.mark):
            return False
        if found and any(is_applied_by_us(each) for each in dig(live, "metadata.managedFields", [])):
            return True
        if self.exclusive:
            who = entry.identity if entry else identity(live)
            if self.recorded.isdisjoint({(who, ""), (who, uid)}):
                return False
        return entry is None or entry.uid in ("", uid)

    def refusal(self, live: Object) -> str:
        """Returns why an exclusive owner must not apply over a live object, and the way out; empty if it may."""
        if not self.exclusive or self.has(live) or (self.adopts and not self.mark_of(live)):
            return ""
        if mark := self.mark_of(live):
            return f"it exists and its label {self.label} names {mark!r}: delete or rename one of the two objects"
        managers = {str(entry.get("manager")) for entry in dig(live, "metadata.managedFields", [])}
        writers = f", written by {', '.join(sorted(managers)[:3])}" if managers else ""
        return (
            f"it exists{writers}, and was not applied for {self.mark}: delete or rename one of the two objects, or "
            f"annotate the {self.kind} with {ADOPT_ANNOTATION}: true to have the object taken over and later deleted"
        )
