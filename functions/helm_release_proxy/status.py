"""Builds the status of a HelmReleaseProxy, with the conditions of Cluster API Addon Provider Helm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from shared.api.conditions import READY, get_condition, set_condition
from shared.kube import Object, dig
from shared.runtime.status import StatusBuilder

ReleaseCondition = Literal["ClusterAvailable", "HelmReleaseReady"]
CLUSTER_AVAILABLE: Final = "ClusterAvailable"
RELEASE_READY: Final = "HelmReleaseReady"

_ORDER: Final = {type_: number for number, type_ in enumerate((READY, CLUSTER_AVAILABLE, RELEASE_READY))}


@dataclass
class ReleaseStatusBuilder(StatusBuilder[ReleaseCondition]):
    """Builds the status. `Ready` summarizes the other conditions."""

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

    def summarized(self) -> list[Object]:
        """Returns the conditions with `Ready`, by the rules of Cluster API: False precedes Unknown, Unknown True."""
        found = [
            get_condition(self.conditions, type_) or _missing(type_) for type_ in (CLUSTER_AVAILABLE, RELEASE_READY)
        ]
        statuses = {str(one.get("status")) for one in found}
        status = "False" if "False" in statuses else "True" if statuses == {"True"} else "Unknown"
        reason = {"True": "InfoReported", "False": "IssuesReported"}.get(status, "UnknownReported")
        shown = [one for one in found if one.get("status") != "True" or (status == "True" and one.get("message"))]
        message = "\n".join(f"* {one['type']}: {one.get('message') or one.get('reason')}" for one in shown)
        summarized = set_condition(
            self.conditions,
            READY,
            status,
            reason,
            message,
            now=self.now,
            observed_generation=self.generation,
        )
        return sorted(summarized, key=lambda one: _ORDER.get(str(one.get("type")), len(_ORDER)))


def _missing(type_: str) -> Object:
    return {"type": type_, "status": "Unknown", "message": f"Condition {type_} not yet reported"}
