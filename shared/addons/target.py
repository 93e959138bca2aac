"""The target of a sync and the progress through its stages, as recorded in `status.digest` and `status.stages`.

A release consists either of one umbrella chart, or of stages, which may have conditions before and after them.
A sync with a new target begins with the first stage, even if the former sync is incomplete, so that a faulty release
can be replaced at any point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.conditions import rfc3339
from shared.applier.inventory import digest
from shared.charts import Capabilities
from shared.kube import Object, dig
from shared.releases.naming import ReleaseName
from shared.releases.stages import (
    AFTER_CLUSTER_UPGRADE,
    AFTER_CONTROL_PLANE_INITIALIZED,
    BEFORE_CLUSTER_UPGRADE,
    Stage,
    StageCondition,
)

from .chart_objects import AddonAssets

PENDING, BEFORE, WORKING, AFTER, DONE = (
    "Pending",
    "waitingForPreCondition",
    "applyingOrDeleting",
    "waitingForPostCondition",
    "done",
)


def due_hook(addon: Object, class_name: str) -> str:
    """Returns the hook whose stages are to be carried out now: of the installation, before an upgrade, or after it."""
    applied = dig(addon, "spec.clusterStack")
    if dig(addon, "spec.hook") == AFTER_CLUSTER_UPGRADE or applied == class_name:
        return AFTER_CLUSTER_UPGRADE
    return BEFORE_CLUSTER_UPGRADE if applied else AFTER_CONTROL_PLANE_INITIALIZED


@dataclass(frozen=True)
class SyncTarget:
    """The content of a sync, and its cluster.

    Attributes:
        class_name: The class of the release.
        version: The version of its addons.
        hook: The hook whose stages are carried out; empty in a release without stages.
        kubernetes_version: The live Kubernetes version that charts saw; empty if no chart uses it.
        cluster_uid: The uid of the Cluster.
    """

    class_name: str
    version: str
    hook: str = ""
    kubernetes_version: str = ""
    cluster_uid: str = ""

    @classmethod
    def of_release(cls, addon: Object, cluster: Object, assets: AddonAssets, capabilities: Capabilities) -> SyncTarget:
        """Returns the target that the Cluster's class names."""
        class_name, uid = cluster_api.class_name(cluster) or "", cluster["metadata"]["uid"]
        version = str(assets.release.metadata.cluster_addon)
        kubernetes = capabilities.version if capabilities.api_versions else ""
        if assets.stages is None:
            return cls(class_name, version, kubernetes_version=kubernetes, cluster_uid=uid)
        return cls._in_stages(addon, class_name, version, kubernetes, uid)

    @classmethod
    def _in_stages(cls, addon: Object, *parts: str) -> SyncTarget:
        """Returns the target with the due hook, or the target of the latest sync if it differs only in the hook."""
        due = due_hook(addon, parts[0])
        hooks = (
            (due,)
            if dig(addon, "spec.hook") == AFTER_CLUSTER_UPGRADE
            else (AFTER_CLUSTER_UPGRADE, BEFORE_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED)
        )
        class_name, version, kubernetes, uid = parts
        targets = [cls(class_name, version, hook, kubernetes, uid) for hook in hooks]
        recorded = dig(addon, "status.digest")
        return next((one for one in targets if one.digest == recorded), cls(class_name, version, due, kubernetes, uid))

    @property
    def digest(self) -> str:
        """The digest that `status.digest` records."""
        return digest(self.class_name, self.version, self.hook, self.kubernetes_version, self.cluster_uid)

    def was_synced_last(self, addon: Object) -> bool:
        """Returns whether the addon's latest sync had this target."""
        return bool(dig(addon, "status.digest") == self.digest)


def is_applied(addon: Object, target: SyncTarget) -> bool:
    """Returns whether the addons of `target` are applied and ready.

    Releases of one cluster stack have the same addons if their addon versions are equal.
    """
    applied = ReleaseName.from_class_name(dig(addon, "spec.clusterStack", ""))
    release = ReleaseName.from_class_name(target.class_name)
    return (
        applied is not None
        and release is not None
        and applied.stack == release.stack
        and dig(addon, "spec.version") == target.version
        and dig(addon, "status.ready") is True
        and dig(addon, "status.kubernetesVersion", "") == target.kubernetes_version
        and dig(addon, "spec.hook") != AFTER_CLUSTER_UPGRADE
    )


@dataclass(frozen=True)
class StagePosition:
    """A stage and its phase; `since` is when the phase began.

    The phases are `PENDING` (not begun), `BEFORE` (waits for the condition before the stage), `WORKING` (applies or
    deletes the chart), `AFTER` (waits for the condition after the stage) and `DONE`.
    """

    stage: Stage
    phase: str
    since: datetime | None = None

    @property
    def condition(self) -> StageCondition | None:
        """The condition that the stage waits for in this phase, if any."""
        if self.phase in (PENDING, BEFORE):
            return self.stage.before
        return self.stage.after if self.phase == AFTER else None

    def is_overdue(self, now: datetime) -> bool:
        """Returns whether the phase takes longer than the stage's timeout."""
        return self.since is not None and (now - self.since).total_seconds() > self.stage.timeout


@dataclass(frozen=True)
class Progress:
    """The stages of a sync with their phases, in order; none in a release without stages."""

    positions: tuple[StagePosition, ...] = ()

    @classmethod
    def for_target(cls, target: SyncTarget, addon: Object, assets: AddonAssets) -> Progress:
        """Returns the progress that `status.stages` records; for another target or other stages, none."""
        stages = assets.stages.at(target.hook) if assets.stages else ()
        recorded = dig(addon, "status.stages")
        entries = recorded if target.was_synced_last(addon) and isinstance(recorded, list) else []
        if [(dig(entry, "name"), dig(entry, "action")) for entry in entries] != [(s.name, s.action) for s in stages]:
            return cls(tuple(StagePosition(stage, PENDING) for stage in stages))
        return cls(
            tuple(
                StagePosition(stage, dig(entry, "phase") or PENDING, _time(dig(entry, "since")))
                for stage, entry in zip(stages, entries, strict=True)
            )
        )

    @property
    def current(self) -> StagePosition | None:
        """The first stage that is not done; None once all are."""
        return next((position for position in self.positions if position.phase != DONE), None)

    def with_current_phase(self, phase: str, now: datetime) -> Progress:
        """Returns the progress with the current stage in `phase`. If it was in another phase, this one begins now."""
        current = self.current
        if current is None or current.phase == phase:
            return self
        changed = replace(current, phase=phase, since=now)
        return Progress(tuple(changed if position is current else position for position in self.positions))

    def dump(self) -> list[Object]:
        """Returns the progress as `status.stages` records it."""
        return [
            {"name": position.stage.name, "action": position.stage.action, "phase": position.phase}
            | ({"since": rfc3339(position.since)} if position.since else {})
            for position in self.positions
        ]


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
