"""What an addon's cluster is found to need: patience, a rollback, or the way to a release.

Worked out once, while observing; what is decided and what is reported afterwards both go by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.api.conditions import is_true
from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import Policy
from shared.kube import Object, dig
from shared.releases.naming import ReleaseName

from .assets import AddonAssets
from .content import Capabilities
from .manifest_history import StoredManifest
from .stored_values import StoredValues
from .target import Progress, RolloutTarget, StagePosition


@dataclass(frozen=True)
class UpToDate:
    """Everything is applied, and nothing asks for another look."""


@dataclass(frozen=True)
class AwaitingReadiness:
    """Everything is applied, and only not ready yet. `known` is the inventory."""

    policy: Policy
    connection: ClusterConnection
    inventory: Sequence[InventoryEntry]


@dataclass(frozen=True, kw_only=True)
class ReconcileContext:
    """A cluster is to be brought to `goal`. `known` is the inventory, `way` how far it is through stages."""

    addon: Object
    policy: Policy
    connection: ClusterConnection
    inventory: Sequence[InventoryEntry]
    target: RolloutTarget
    progress: Progress = field(default_factory=Progress)

    def __str__(self) -> str:
        """As messages name it."""
        return self.target.class_name

    @property
    def resumed(self) -> bool:
        """Whether the latest rollout had the same goal."""
        return self.target.is_latest_rollout(self.addon)

    @property
    def is_drift_check(self) -> bool:
        """Whether everything was applied before, so that only what has changed since is looked for."""
        applied = is_true(dig(self.addon, "status.conditions", []), "HelmChartApplied")
        return self.resumed and (applied or dig(self.addon, "status.ready") is True)

    @property
    def only_report(self) -> bool:
        """Whether drift is told, and left."""
        return self.is_drift_check and self.policy.drift == "report"


@dataclass(frozen=True, kw_only=True)
class RollbackContext(ReconcileContext):
    """Back to what was applied before."""

    manifest: StoredManifest

    def __str__(self) -> str:
        return f"going back to {self.manifest.class_name}"


@dataclass(frozen=True, kw_only=True)
class ReleaseContext(ReconcileContext):
    """To what the Cluster's class asks for."""

    name: ReleaseName
    assets: AddonAssets
    capabilities: Capabilities
    template_context: Mapping[str, Any]
    """What a values template sees: `.Cluster` always, `.ControlPlane` and `.InfraCluster` where it refers to them."""
    unreadable: str = ""
    """Why one of these cannot be read. It would render as nothing, and prune what depends on it."""
    stored_values: StoredValues = field(default_factory=StoredValues)
    """What the release generated when it was rendered first."""
    condition_objects: Mapping[str, Object | None] | ConnectionFailed = field(default_factory=dict)
    """The objects that the current stage's condition is about; None for one that is not there."""

    @property
    def position(self) -> StagePosition | None:
        """The stage that is due; None once all are done, and where there are none."""
        return self.progress.current
