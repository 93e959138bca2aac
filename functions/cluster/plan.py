"""The decision about a Cluster while it is being made: what its phases have added so far, and what its status says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.api import cluster as cluster_api
from shared.effects import Effect
from shared.kube import Object, deleting, dig
from shared.runtime import Notice
from shared.runtime.verdict import Draft

FINALIZER = "cluster.cluster.x-k8s.io"


@dataclass
class Plan(Draft):
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


def status_of(plan: Plan) -> Object:
    word = phase(plan.cluster, provisioned=plan.provisioned, endpoint=plan.endpoint is not None)
    if word != dig(plan.cluster, "status.phase", "Pending"):  # in which each begins: no news
        plan.notices.append(Notice(word, f"Cluster {plan.cluster['metadata']['name']} is {word}"))
    # Cluster API's own definition of Cluster takes neither an empty object nor an empty list here.
    fields: Object = {"phase": word, "initialization": plan.initialization or None}
    if plan.failure_domains is not None:
        fields["failureDomains"] = plan.failure_domains or None
    if not plan.errors:
        fields["observedGeneration"] = plan.generation
    return plan.status(**fields)


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
