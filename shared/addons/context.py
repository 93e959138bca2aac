"""The task of one reconcile of a ClusterAddon: nothing, wait for readiness, roll back, or roll out a release.

`observe` determines the task; `decide` and `report` use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.api.conditions import is_true
from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import Policy
from shared.charts import Capabilities
from shared.kube import Object, dig
from shared.manifests import Operation
from shared.releases.naming import ReleaseName

from .chart_objects import AddonAssets
from .manifest_history import StoredManifest
from .stored_values import StoredValues
from .target import Progress, StagePosition, SyncTarget


@dataclass(frozen=True)
class UpToDate:
    """The addons are applied and ready, and no resync was requested."""


@dataclass(frozen=True)
class AwaitingReadiness:
    """All objects are applied, and some of them are not ready yet."""

    policy: Policy
    connection: ClusterConnection
    inventory: Sequence[InventoryEntry]


@dataclass(frozen=True, kw_only=True)
class ReconcileContext:
    """A sync to `target`; `progress` has its stages with their phases."""

    addon: Object
    policy: Policy
    connection: ClusterConnection
    inventory: Sequence[InventoryEntry]
    target: SyncTarget
    progress: Progress = field(default_factory=Progress)

    def __str__(self) -> str:
        """Returns the name of the sync in messages."""
        return self.target.class_name

    @property
    def resumed(self) -> bool:
        """Whether the latest sync had the same target."""
        return self.target.was_synced_last(self.addon)

    @property
    def is_drift_check(self) -> bool:
        """Whether everything was applied before, so that this sync only looks for changes since."""
        applied = is_true(dig(self.addon, "status.conditions", []), "HelmChartApplied")
        return self.resumed and (applied or dig(self.addon, "status.ready") is True)

    @property
    def only_report(self) -> bool:
        """Whether drift is reported and not repaired."""
        return self.is_drift_check and self.policy.drift == "report"


@dataclass(frozen=True, kw_only=True)
class RollbackContext(ReconcileContext):
    """A rollback to a manifest that was applied before."""

    manifest: StoredManifest

    def __str__(self) -> str:
        return f"rolling back to {self.manifest.class_name}"


@dataclass(frozen=True, kw_only=True)
class RemovalContext(ReconcileContext):
    """The removal of all applied objects."""

    def __str__(self) -> str:
        return "removing the addons"


@dataclass(frozen=True, kw_only=True)
class ReleaseContext(ReconcileContext):
    """A sync of the release that the Cluster's class names."""

    name: ReleaseName
    assets: AddonAssets
    capabilities: Capabilities
    template_context: Mapping[str, Any]
    """The data of values templates: `.Cluster`, and the referenced `.ControlPlane` and `.InfraCluster`."""
    unreadable: str = ""
    """Why one of these objects cannot be read. Rendering without it would prune the objects that depend on it."""
    stored_values: StoredValues = field(default_factory=StoredValues)
    """The values that the release generated when it was rendered first."""
    condition_objects: Mapping[str, Object | None] | ConnectionFailed = field(default_factory=dict)
    """The objects that the current stage's condition refers to, by key; None for a missing object."""

    def operation(self, stage: str = "") -> Operation:
        """Returns the operation of Helm that the sync of this stage corresponds to.

        After the stages of a release their hooks have run, so the last step is a check. `status.history` is
        written together with the result of a sync: an interrupted installation stays an installation.
        """
        if self.is_drift_check or (self.assets.stages is not None and not stage):
            return "check"
        former, history = dig(self.addon, "spec.clusterStack"), dig(self.addon, "status.history", [])
        if history:
            installed = history[0].get("stages")
            return "upgrade" if not stage or installed is None or stage in installed else "install"
        return "upgrade" if former and former != self.target.class_name else "install"

    @property
    def position(self) -> StagePosition | None:
        """The stage that is due; None once all are done, or in a release without stages."""
        return self.progress.current
