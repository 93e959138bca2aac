"""Collects effects, waits, errors and the status in one reconciliation of a Cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from shared.api import cluster as cluster_api
from shared.api.cluster import TOPOLOGY_RECONCILED, ClusterCondition
from shared.api.conditions import get_condition
from shared.effects import Effect
from shared.kube import Object, deleting, dig
from shared.runtime.status import StatusBuilder

FINALIZER = "cluster.cluster.x-k8s.io"

_OF_V1BETA1 = ("Ready", "ControlPlaneReady")
_ORDER = get_args(ClusterCondition)
"""The order of the conditions. Other types precede `Paused`, by name, but core puts its own before `RollingOut`."""


@dataclass
class ClusterStatusBuilder(StatusBuilder[ClusterCondition]):
    """The decisions of the phases of one reconciliation; each phase adds its own."""

    initialization: dict[str, Any] = field(init=False)
    """The new `status.initialization`. Facts in the present status, of v1beta1 or v1beta2, are kept."""
    endpoint: tuple[str, int] | None = field(init=False)
    failure_domains: list[Object] | None = None
    effects: list[Effect] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Errors of phases. `status.observedGeneration` is updated only if there are none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.endpoint = cluster_api.endpoint(self.cluster)
        self.initialization = dict(dig(self.cluster, "status.initialization", {}))
        if cluster_api.infrastructure_provisioned(self.cluster):
            self.initialization["infrastructureProvisioned"] = True
        if cluster_api.control_plane_initialized(self.cluster):
            self.initialization["controlPlaneInitialized"] = True

    @property
    def cluster(self) -> Object:
        return self.obj

    def keep(self, type_: ClusterCondition) -> None:
        """Keeps a condition whose objects were not read; requeues the Cluster unless the condition is up to date."""
        before = get_condition(self.initial, type_) or {}
        if before.get("observedGeneration") != self.generation:
            self.waits.append(0.0)

    def summarized(self) -> list[Object]:
        """Returns the conditions, in order if there is a new one; otherwise each keeps its place."""
        known = {entry.get("type") for entry in self.initial}
        is_new = any(entry["type"] not in known for entry in self.conditions)
        return sorted(self.conditions, key=_rank) if is_new else self.conditions

    @property
    def provisioned(self) -> bool:
        return self.initialization.get("infrastructureProvisioned") is True


def foreign_conditions(conditions: Iterable[Object]) -> Iterator[Object]:
    """Yields the conditions that other programs write."""
    return (entry for entry in conditions if entry.get("type") not in (*_ORDER, *_OF_V1BETA1))


def _rank(condition: Object) -> tuple[int, bool, str]:
    type_ = condition["type"]
    is_own = type_ in _ORDER
    before = "RollingOut" if type_ == TOPOLOGY_RECONCILED else "Paused"
    return _ORDER.index(type_ if is_own else before), is_own, type_


def status_fields(builder: ClusterStatusBuilder) -> Object:
    """Returns the fields of the status beside the conditions, and adds an event if the phase changes."""
    new = phase(builder.cluster, provisioned=builder.provisioned, endpoint=builder.endpoint is not None)
    if new != dig(builder.cluster, "status.phase", "Pending"):  # Pending is the initial phase, which needs no event
        builder.add_event(new, f"Cluster {builder.cluster['metadata']['name']} is {new}")
    # Cluster API's CRD accepts neither an empty object nor an empty list here.
    fields: Object = {"phase": new, "initialization": builder.initialization or None}
    if builder.failure_domains is not None:
        fields["failureDomains"] = builder.failure_domains or None
    if not builder.errors:
        fields["observedGeneration"] = builder.generation
    return fields


def phase(cluster: Object, *, provisioned: bool, endpoint: bool) -> str:
    """Returns `status.phase`. Later rules override earlier ones."""
    result = "Pending"
    if dig(cluster, "spec.infrastructureRef") or dig(cluster, "spec.controlPlaneRef"):
        result = "Provisioning"
    if provisioned and endpoint:
        result = "Provisioned"
    if deleting(cluster):
        result = "Deleting"
    return result
