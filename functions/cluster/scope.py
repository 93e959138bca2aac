"""The scope of one reconciliation of a Cluster: the effects, waits and errors that its phases add, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.api import cluster as cluster_api
from shared.effects import Effect
from shared.kube import Object, deleting, dig
from shared.runtime.status import StatusBuilder

FINALIZER = "cluster.cluster.x-k8s.io"


@dataclass
class Scope(StatusBuilder):
    """Collects what the phases of one reconciliation decide."""

    initialization: dict[str, Any] = field(init=False)
    """The facts so far; one that was written in the older contract holds, too."""
    endpoint: tuple[str, int] | None = field(init=False)
    failure_domains: list[Object] | None = None
    effects: list[Effect] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.endpoint = cluster_api.endpoint(self.cluster)
        self.initialization = dict(dig(self.cluster, "status.initialization", {}))
        if cluster_api.infrastructure_provisioned(self.cluster):
            self.initialization["infrastructureProvisioned"] = True

    @property
    def cluster(self) -> Object:
        return self.obj

    @property
    def provisioned(self) -> bool:
        return self.initialization.get("infrastructureProvisioned") is True


def status_of(scope: Scope) -> Object:
    word = phase(scope.cluster, provisioned=scope.provisioned, endpoint=scope.endpoint is not None)
    if word != dig(scope.cluster, "status.phase", "Pending"):  # in which each begins: no news
        scope.add_event(word, f"Cluster {scope.cluster['metadata']['name']} is {word}")
    # Cluster API's own definition of Cluster takes neither an empty object nor an empty list here.
    fields: Object = {"phase": word, "initialization": scope.initialization or None}
    if scope.failure_domains is not None:
        fields["failureDomains"] = scope.failure_domains or None
    if not scope.errors:
        fields["observedGeneration"] = scope.generation
    return scope.status(**fields)


def phase(cluster: Object, *, provisioned: bool, endpoint: bool) -> str:
    """The phase word: the last rule that holds wins."""
    word = "Pending"
    if dig(cluster, "spec.infrastructureRef") or dig(cluster, "spec.controlPlaneRef"):
        word = "Provisioning"
    if provisioned and endpoint:
        word = "Provisioned"
    if deleting(cluster):
        word = "Deleting"
    return word
