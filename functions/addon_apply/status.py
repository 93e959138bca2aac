"""The conditions of one ClusterAddon, which are about one release: the one that its Cluster asks for.

What was said of a rollout goes with its release: once the Cluster asks for another, nothing of the former one is left.
What stands in the way is said for as long as it does: what a decision does not find any more is not false any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from shared.addons import manifest_history
from shared.api import cluster as cluster_api
from shared.api.addon import reported_release
from shared.api.conditions import remove_condition
from shared.applier import inventory
from shared.applier.inventory import KEPT
from shared.kube import Object, dig
from shared.releases import missing
from shared.runtime.status import V1Beta1StatusBuilder

OBSTACLES = (
    "ClusterReady",
    missing.CONDITION,
    "ClusterAddonConfigValidated",
    "HelmChartTemplated",
    "EvaluatedCEL",
    "HelmChartDeleted",
)
"""Conditions that are False only while a decision finds them so."""
GENERATED_VALUES_KEPT = "GeneratedValuesKept"
OF_RELEASE = (*OBSTACLES[1:], GENERATED_VALUES_KEPT, "HelmChartApplied", "ObjectsReady")


@dataclass
class AddonStatus(V1Beta1StatusBuilder):
    """The status while a decision is made. `release` is the class that the Cluster has."""

    release: str = ""
    rollback_from: str = ""
    """The same where a rollback from it is asked for, else empty."""

    @classmethod
    def of(cls, addon: Object, cluster: Object, now: datetime) -> AddonStatus:
        release = cluster_api.class_name(cluster) or ""
        return cls(
            addon,
            now,
            release=release,
            rollback_from=release if manifest_history.is_rollback_requested(addon, cluster) else "",
        )

    @classmethod
    def as_recorded(cls, addon: Object, now: datetime) -> AddonStatus:
        """About what it is about so far, where nobody can tell what the Cluster asks for."""
        return cls(addon, now, release=reported_release(addon), rollback_from=dig(addon, "status.rollbackFrom", ""))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_new_target:
            for type_ in OF_RELEASE:
                self.initial = remove_condition(self.initial, type_)
            self.conditions = list(self.initial)

    @property
    def is_new_target(self) -> bool:
        """Whether the status is of another release so far, or of a rollback."""
        return (reported_release(self.obj), dig(self.obj, "status.rollbackFrom", "")) != (
            self.release,
            self.rollback_from,
        )

    def status(self, **fields: object) -> Object:
        about = self.target_fields()
        if self.is_new_target:
            about |= {"stages": None, "drift": None}
            resources = dig(self.obj, "status.resources")
            if (cleared := _without_errors(resources)) != resources:
                about["resources"] = cleared
        return super().status(**{**about, **fields})

    def target_fields(self) -> Object:
        """The fields that say which release the status is of."""
        return {"release": self.release or None, "rollbackFrom": self.rollback_from or None}

    def summarized(self) -> list[Object]:
        self.remove(*(type_ for type_ in OBSTACLES if type_ not in self.updated_types and not self.is_true(type_)))
        return super().summarized()


def _without_errors(resources: object) -> list[Object] | None:
    """The inventory without what went wrong in a rollout that is over; what is kept says why for as long as it is."""
    if not isinstance(resources, list):
        return None
    entries: Iterable[inventory.InventoryEntry] = inventory.load(resources)
    return inventory.dump(entry if entry.status == KEPT else replace(entry, error="") for entry in entries)
