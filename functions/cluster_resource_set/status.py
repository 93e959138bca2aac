"""Builds the status of a ClusterResourceSet: its conditions as v1beta2 and v1beta1 have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shared.api.conditions import abridged, counted, set_condition, truncate
from shared.kube import Object, dig
from shared.runtime.status import StatusBuilder

SetCondition = Literal["ResourcesApplied", "Paused"]
ProblemKind = Literal["selector", "type", "object", "missing", "client", "wait"]

_REASONS: dict[ProblemKind, tuple[str, str, str]] = {
    "selector": ("InternalError", "ClusterMatchFailed", "Warning"),
    "type": ("WrongSecretType", "WrongSecretType", "Warning"),
    "object": ("NotApplied", "ApplyFailed", "Warning"),
    "missing": ("InternalError", "RetrievingResourceFailed", "Warning"),
    "client": ("InternalError", "RemoteClusterClientFailed", "Error"),
    "wait": ("NotApplied", "RemoteClusterClientFailed", "Info"),
}
"""The reason of the condition in v1beta2, and reason and severity in v1beta1; the first kind that occurs counts."""
_ORDER = tuple(_REASONS)
_MAX_NAMED = 10
"""Problems that the message names."""


class Problem(NamedTuple):
    """Why something is not applied. `cluster` is empty if it concerns all Clusters."""

    kind: ProblemKind
    text: str
    cluster: str = ""

    def __str__(self) -> str:
        return f"{self.cluster}: {self.text}" if self.cluster else self.text


@dataclass
class SetStatusBuilder(StatusBuilder[SetCondition]):
    """Builds the conditions of both versions."""

    message: str = ""
    older: list[Object] | None = field(default=None, init=False)
    """The conditions of v1beta1; None if they stay as they are."""

    def set_paused(self, paused: bool) -> None:
        if paused:
            self.set_true("Paused", "Paused", "ClusterResourceSet has the cluster.x-k8s.io/paused annotation")
        else:
            self.set_false("Paused", "NotPaused", "")

    def set_applied(self, problems: Sequence[Problem], clusters: int) -> None:
        """Sets the condition `ResourcesApplied`: True without problems. `clusters` is the number of selected ones."""
        before = dig(self.obj, "status.deprecated.v1beta1.conditions", [])
        if not problems:
            self.message = "" if clusters else "no Cluster is selected"
            self.set_true("ResourcesApplied", "Applied", self.message)
            conditions = set_condition(before, "ResourcesApplied", "True", message=self.message, now=self.now)
            # The CRD of core rejects an empty message in a condition of v1beta1.
            self.older = [{name: value for name, value in one.items() if value != ""} for one in conditions]
            return
        ranked = sorted(problems, key=lambda one: (_ORDER.index(one.kind), one.cluster))
        reason, older_reason, severity = _REASONS[ranked[0].kind]
        failed = len({one.cluster for one in problems if one.cluster})
        count = f"{failed} of {counted(clusters, 'cluster')}: " if failed else ""
        self.message = truncate(count + abridged([str(one) for one in ranked], _MAX_NAMED))
        event_type = "" if ranked[0].kind == "wait" else "Warning"
        self.set_false("ResourcesApplied", reason, self.message, event_type=event_type)
        self.older = set_condition(
            before, "ResourcesApplied", "False", older_reason, self.message, now=self.now, severity=severity
        )

    def status(self, **fields: object) -> Object:
        older = {} if self.older is None else {"deprecated": {"v1beta1": {"conditions": self.older}}}
        return super().status(**older, **fields)

    def generations(self) -> Object:
        """Returns `observedGeneration`, which is the generation that was applied without problems."""
        return {"observedGeneration": self.generation} if self.is_true("ResourcesApplied") else {}
