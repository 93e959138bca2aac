"""The owner on whose behalf objects are applied, and the mark by which its objects are recognised.

All applied objects carry one common label. That is enough for addons, which have a workload cluster to themselves.
Where several owners apply to one cluster, the value of another label is each owner's mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.manifests import Identity

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

    def mark_of(self, live: Object) -> str:
        """Returns the mark of the owner of a live object, empty if it has none."""
        return str(dig(live, ("metadata", "labels", self.label), "")) if self.label else ""

    def has(self, live: Object, entry: InventoryEntry | None = None) -> bool:
        """Returns whether a live object belongs to this owner, and is the object of the inventory `entry`.

        An object with another uid counts as the entry's object if it has the mark and was applied by us: the process
        may have ended before it recorded a new uid. The labels alone do not prove this, since people copy them.
        """
        found = self.mark_of(live)
        if not is_owned(live) or found not in ("", self.mark):
            return False
        if entry is None or entry.uid in ("", live["metadata"]["uid"]):
            return True
        return bool(found) and any(is_applied_by_us(each) for each in dig(live, "metadata.managedFields", []))
