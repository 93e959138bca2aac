"""Builds the status of one ClusterAddon. It describes one release, the release of the Cluster's class.

When the Cluster gets another class, the conditions that describe the former release are removed. A condition that
reports an obstacle is removed once a decision no longer finds the obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from shared.addons.status import is_rollback_requested
from shared.api import cluster as cluster_api
from shared.api.addon import AddonCondition, reported_release
from shared.api.conditions import remove_condition
from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.applier import inventory
from shared.applier.inventory import KEPT
from shared.effects import Effect, ensure_finalizer
from shared.event import Event
from shared.kube import Object, dig
from shared.releases.missing_assets import DOWNLOADED
from shared.runtime import Decision
from shared.runtime.status import V1Beta1StatusBuilder

OBSTACLES: tuple[AddonCondition, ...] = (
    "ClusterReady",
    DOWNLOADED,
    "ClusterAddonConfigValidated",
    "HelmChartTemplated",
    "EvaluatedCEL",
    "HelmChartDeleted",
)
"""Conditions that report obstacles to a sync. A decision removes each that it does not set, unless it is True."""
GENERATED_VALUES_KEPT: Final = "GeneratedValuesKept"
RELEASE_CONDITIONS = (*OBSTACLES[1:], GENERATED_VALUES_KEPT, "HelmChartApplied", "ObjectsReady")
"""Conditions that describe the release: removed when the release changes. `ClusterReady` describes the Cluster."""


# Seconds until the next reconcile.
CLUSTER_RETRY = 10.0
ASSETS_RETRY = 10.0
PARTIAL_RETRY = 20.0
CONDITION_RETRY = 20.0
READY_RETRY = 5.0
BROKEN_RETRY = 60.0
"""The interval for problems that only a user can solve: attempts are rare, but do not end."""


@dataclass
class AddonStatusBuilder(V1Beta1StatusBuilder[AddonCondition]):
    """Builds the status for one release."""

    release: str = ""
    """The name of the Cluster's class and of the release; empty without a class."""
    rollback_from: str = ""
    """The class to roll back from if a rollback is requested, otherwise empty."""

    @classmethod
    def of(cls, addon: Object, cluster: Object, now: datetime) -> AddonStatusBuilder:
        """Returns a builder for the release of the Cluster's class."""
        release = cluster_api.class_name(cluster) or ""
        return cls(
            addon,
            now,
            release=release,
            rollback_from=release if is_rollback_requested(addon, cluster) else "",
        )

    @classmethod
    def as_recorded(cls, addon: Object, now: datetime) -> AddonStatusBuilder:
        """Returns a builder for the release in the present status, for an addon whose Cluster cannot be read."""
        return cls(addon, now, release=reported_release(addon), rollback_from=dig(addon, "status.rollbackFrom", ""))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_new_target:
            for type_ in RELEASE_CONDITIONS:
                self.initial = remove_condition(self.initial, type_)
            self.conditions = list(self.initial)

    @property
    def is_new_target(self) -> bool:
        """Whether the present status is about another release or rollback."""
        return (reported_release(self.obj), dig(self.obj, "status.rollbackFrom", "")) != (
            self.release,
            self.rollback_from,
        )

    def status(self, **fields: object) -> Object:
        target = self.target_fields()
        if self.is_new_target:
            target |= {"stages": None, "drift": None}
            resources = dig(self.obj, "status.resources", [])
            if (cleared := _without_errors(resources)) != resources:
                target["resources"] = cleared
        return super().status(**{**target, **fields})

    def target_fields(self) -> Object:
        """Returns the fields that name the release that the status is about."""
        return {"release": self.release or None, "rollbackFrom": self.rollback_from or None}

    def summarized(self) -> list[Object]:
        self.remove(*(type_ for type_ in OBSTACLES if type_ not in self.updated_types and not self.is_true(type_)))
        return super().summarized()

    def finalizer(self) -> tuple[Effect, ...]:
        """Returns the effect that adds the finalizer if it is missing.

        The finalizer must exist before any effect that has to be undone when the ClusterAddon is deleted.
        """
        return ensure_finalizer(CLUSTER_ADDON, self.obj, ADDON_FINALIZER)

    def wait(self, seconds: float, message: str, *, reply: Event | None = None, **fields: Any) -> Decision:
        """Returns the decision to requeue after `seconds`; `fields` are further fields of the status."""
        return self.decision(
            *self.finalizer(), requeue_after=seconds, reply=reply, message=message, ready=False, **fields
        )


def _without_errors(resources: object) -> list[Object]:
    """Returns the inventory without the errors of the former sync.

    Entries with status `kept` do not change: their `error` says why the object is kept.
    """
    entries: Iterable[inventory.InventoryEntry] = inventory.load(resources)
    return inventory.dump(entry if entry.status == KEPT else replace(entry, error="") for entry in entries)
