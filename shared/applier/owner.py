"""On whose behalf objects are applied, and by what they are known as its own.

All objects of ours carry one common label. In a cluster of their own (addons) that is enough; where several owners
apply to one cluster, each has a mark of its own beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.manifests import Identity

from ..kube import Client, Object, dig
from .adoption import is_applied_by_us
from .inventory import InventoryEntry, is_owned

Claim = Callable[[Client, str, Identity], str]
"""Which owner with this mark needs the object: as people call it, empty where there is none. May raise `ApiError`."""


def _no_claim(_client: Client, _mark: str, _who: Identity) -> str:
    return ""


@dataclass(frozen=True)
class Owner:
    """`kind` is that of the object on which people annotate what they want."""

    kind: str = "Cluster"
    label: str = ""
    """Its value on an object is the mark; empty where the common label is all that there is."""
    mark: str = ""
    claim: Claim = _no_claim

    def mark_of(self, live: Object) -> str:
        return str(dig(live, ("metadata", "labels", self.label), "")) if self.label else ""

    def has(self, live: Object, entry: InventoryEntry | None = None) -> bool:
        """Whether an object is this owner's, as the `entry` was.

        One that was made anew is, where a mark tells it and we applied it: the process may have died before it could
        say so. Labels alone are copied by others.
        """
        found = self.mark_of(live)
        if not is_owned(live) or found not in ("", self.mark):
            return False
        if entry is None or entry.uid in ("", live["metadata"]["uid"]):
            return True
        return bool(found) and any(is_applied_by_us(each) for each in dig(live, "metadata.managedFields", []))
