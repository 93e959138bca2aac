"""Builds the status of a HelmReleaseProxy, with the conditions of Cluster API Addon Provider Helm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from shared.kube import Object, dig
from shared.runtime.status import SummarizedStatusBuilder

ReleaseCondition = Literal["ClusterAvailable", "HelmReleaseReady"]
CLUSTER_AVAILABLE: Final = "ClusterAvailable"
RELEASE_READY: Final = "HelmReleaseReady"


@dataclass
class ReleaseStatusBuilder(SummarizedStatusBuilder[ReleaseCondition]):
    """Builds the status. `Ready` summarizes the other conditions."""

    parts = (CLUSTER_AVAILABLE, RELEASE_READY)

    def status(self, **fields: object) -> Object:
        return super().status(observedGeneration=dig(self.obj, "metadata.generation"), **fields)

    def cluster_available(self) -> None:
        """Reports that the workload cluster answers."""
        self.set_true(CLUSTER_AVAILABLE, "Available")

    def prepare(self, message: str) -> None:
        """Reports that an installation or upgrade is prepared."""
        self.set_false(RELEASE_READY, "PreparingToHelmInstall", message)

    def fail(self, message: str, reason: str = "HelmInstallOrUpgradeFailed") -> None:
        """Reports a failure about the release."""
        self.set_false(RELEASE_READY, reason, message, event_type="Warning")
