"""What a cluster is to be brought to, and how far on the way it is: pure bookkeeping over `status.stages`.

A release has stages, each behind a condition and before one, or none (the umbrella chart). Where the target changes
the way begins anew, so that a faulty stack can be left for a fixed one at any point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.conditions import rfc3339
from shared.applier.inventory import digest
from shared.kube import Object, dig
from shared.releases.naming import ReleaseName
from shared.releases.stages import (
    AFTER_CLUSTER_UPGRADE,
    AFTER_CONTROL_PLANE_INITIALIZED,
    BEFORE_CLUSTER_UPGRADE,
    Condition,
    Stage,
)

from .assets import AddonAssets
from .content import Capabilities

PENDING, BEFORE, WORKING, AFTER, DONE = (
    "Pending",
    "waitingForPreCondition",
    "applyingOrDeleting",
    "waitingForPostCondition",
    "done",
)


def due_hook(addon: Object, class_name: str) -> str:
    """Which list of stages is due: another one for the first release, a new one, and a new look at the same."""
    applied = dig(addon, "spec.clusterStack")
    if dig(addon, "spec.hook") == AFTER_CLUSTER_UPGRADE or applied == class_name:
        return AFTER_CLUSTER_UPGRADE
    return BEFORE_CLUSTER_UPGRADE if applied else AFTER_CONTROL_PLANE_INITIALIZED


@dataclass(frozen=True)
class RolloutTarget:
    """The release (by class name and addon version), the list of stages, and the Kubernetes version charts are told."""

    class_name: str
    version: str
    hook: str = ""
    kubernetes_version: str = ""
    cluster_uid: str = ""

    @classmethod
    def of_release(cls, addon: Object, cluster: Object, assets: AddonAssets, facts: Capabilities) -> RolloutTarget:
        """What the Cluster's class asks for."""
        class_name, uid = cluster_api.class_name(cluster) or "", cluster["metadata"]["uid"]
        version = str(assets.release.metadata.cluster_addon)
        told = facts.version if facts.api_versions else ""
        if assets.stages is None:
            return cls(class_name, version, kubernetes_version=told, cluster_uid=uid)
        return cls._in_stages(addon, class_name, version, told, uid)

    @classmethod
    def _in_stages(cls, addon: Object, *parts: str) -> RolloutTarget:
        """The target whose list of stages is due; while nothing else changes, the list that was gone through."""
        due = due_hook(addon, parts[0])
        hooks = (
            (due,)
            if dig(addon, "spec.hook") == AFTER_CLUSTER_UPGRADE
            else (AFTER_CLUSTER_UPGRADE, BEFORE_CLUSTER_UPGRADE, AFTER_CONTROL_PLANE_INITIALIZED)
        )
        class_name, version, told, uid = parts
        targets = [cls(class_name, version, hook, told, uid) for hook in hooks]
        recorded = dig(addon, "status.digest")
        return next((one for one in targets if one.digest == recorded), cls(class_name, version, due, told, uid))

    @property
    def digest(self) -> str:
        return digest(self.class_name, self.version, self.hook, self.kubernetes_version, self.cluster_uid)

    def is_latest_rollout(self, addon: Object) -> bool:
        """Whether the latest rollout had this target."""
        return bool(dig(addon, "status.digest") == self.digest)


def is_applied(addon: Object, target: RolloutTarget) -> bool:
    """Whether the addons of `goal` are applied and ready. Versions count within one stack: each has its own."""
    applied = ReleaseName.from_class_name(dig(addon, "spec.clusterStack", ""))
    wanted = ReleaseName.from_class_name(target.class_name)
    return (
        applied is not None
        and wanted is not None
        and applied.stack == wanted.stack
        and dig(addon, "spec.version") == target.version
        and dig(addon, "status.ready") is True
        and dig(addon, "status.kubernetesVersion", "") == target.kubernetes_version
        and dig(addon, "spec.hook") != AFTER_CLUSTER_UPGRADE
    )


@dataclass(frozen=True)
class StagePosition:
    """A stage and where it stands; `since` is when its phase began."""

    stage: Stage
    phase: str
    since: datetime | None = None

    @property
    def condition(self) -> Condition | None:
        """What is waited for in this phase."""
        if self.phase in (PENDING, BEFORE):
            return self.stage.before
        return self.stage.after if self.phase == AFTER else None

    def is_overdue(self, now: datetime) -> bool:
        return self.since is not None and (now - self.since).total_seconds() > self.stage.timeout


@dataclass(frozen=True)
class Progress:
    """All stages on the way to a target, in order; a release without stages has none."""

    positions: tuple[StagePosition, ...] = ()

    @classmethod
    def for_target(cls, target: RolloutTarget, addon: Object, assets: AddonAssets) -> Progress:
        """From `status.stages`, if that tells of the same way; else from the start."""
        stages = assets.stages.at(target.hook) if assets.stages else ()
        recorded = dig(addon, "status.stages")
        entries = recorded if target.is_latest_rollout(addon) and isinstance(recorded, list) else []
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
        """With the current stage in `phase`, from now on unless it is in it already."""
        current = self.current
        if current is None or current.phase == phase:
            return self
        moved = replace(current, phase=phase, since=now)
        return Progress(tuple(moved if position is current else position for position in self.positions))

    def dump(self) -> list[Object]:
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
