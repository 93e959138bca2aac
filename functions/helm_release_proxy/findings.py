"""The findings about a HelmReleaseProxy: a missing prerequisite, or the work to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.inventory import InventoryEntry
from shared.applier.sync import Sync
from shared.charts import Release
from shared.helm_charts.store import MissingChart, StoredChart
from shared.helm_proxies.release_record import History, ReleaseRecord
from shared.kube import Object
from shared.manifests import Operation

from .options import Options


@dataclass(frozen=True)
class LeftTo:
    """Cluster API Addon Provider Helm runs as this Deployment, and reconciles HelmReleaseProxies."""

    controller: str


@dataclass(frozen=True)
class Problem:
    """The release cannot be installed or read as it is."""

    message: str


@dataclass(frozen=True)
class Rival:
    """Another HelmReleaseProxy has the same release on the same cluster, and precedes."""

    name: str


@dataclass(frozen=True)
class UpToDate:
    """The release is deployed, and no resync was requested."""

    chart: StoredChart


@dataclass(frozen=True)
class GivenUp:
    """An operation with this chart, these values and options has failed and was undone. It is not tried again."""

    chart: StoredChart


@dataclass(frozen=True)
class Adoption:
    """A deployed release of this chart and these values exists, which another installer may have made."""

    chart: StoredChart
    digest: str
    record: ReleaseRecord
    entries: Sequence[InventoryEntry]


@dataclass(frozen=True)
class Work:
    """An installation, an upgrade, or the check of a deployed release.

    Attributes:
        chart: The chart.
        digest: Identifies chart and values.
        history: The stored revisions.
        record: The record of the revision; a new one is not stored yet.
        rollout: Applies and prunes the objects.
        options: The options of the HelmReleaseProxy.
        crds: The objects of the `crds/` folders to create before.
        operation: The operation of Helm; `check` for a deployed release.
        attempt: Identifies chart, values and options.
        former_digest: The digest of the deployed record, to which a failed upgrade may be rolled back; "" for none.
    """

    chart: StoredChart
    digest: str
    history: History
    record: ReleaseRecord
    rollout: Sync
    options: Options
    operation: Operation
    attempt: str
    former_digest: str = ""
    crds: Sequence[Object] = ()

    @property
    def is_new(self) -> bool:
        """Whether the record is not stored yet."""
        return self.record is not self.history.latest


@dataclass(frozen=True)
class Removal:
    """The removal of a release: its objects, the hooks of its record, and the stored revisions."""

    connection: ClusterConnection
    release: Release
    history: History
    entries: Sequence[InventoryEntry]
    hooks: Sequence[Object]
    options: Options
    attempt: str = ""
    """Identifies chart, values and options of a failed installation that is undone; "" if the release is deleted."""


Finding = LeftTo | ConnectionFailed | MissingChart | Problem | Rival | UpToDate | GivenUp | Adoption | Work | Removal


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one HelmReleaseProxy."""

    proxy: Object | None
    cluster: Object | None = None
    finding: Finding | None = None
    """The missing prerequisite, or the work to do; None if no other input is needed."""
    confidential: Collection[str] = field(default=(), repr=False)
    """Texts that no status and no message may contain."""
