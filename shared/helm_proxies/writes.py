"""The effect that writes the HelmReleaseProxies of a HelmChartProxy. A failure for one Cluster does not stop others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shared.api.resources import HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.effects import Create, Delete, Patch
from shared.kube import ApiError, Object

Kind = Literal["create", "patch", "reinstall", "delete"]


@dataclass(frozen=True)
class Write:
    """The write of the HelmReleaseProxy of one Cluster; `patch` for the kind `patch`."""

    kind: Kind
    cluster: str
    release: Object
    patch: Object = field(default_factory=dict)

    def execute(self, clients: Clients) -> Object | None:
        """Returns the object as it is stored, None after a deletion. Raises `ApiError`."""
        match self.kind:
            case "create":
                return Create(HELM_RELEASE_PROXY, self.release).execute(clients)
            case "patch":
                return Patch(HELM_RELEASE_PROXY, self.release, self.patch).execute(clients)
            case _:
                Delete(HELM_RELEASE_PROXY, self.release).execute(clients)
                return None


@dataclass(frozen=True)
class Outcome:
    """The writes by Cluster: what was stored, and the failures."""

    stored: Mapping[str, Object]
    failures: Mapping[str, ApiError]


@dataclass(frozen=True)
class WriteReleases:
    """Executes all writes."""

    writes: tuple[Write, ...]

    def execute(self, clients: Clients) -> Outcome:
        """Returns the outcome; raises nothing for a single object."""
        stored: dict[str, Object] = {}
        failures: dict[str, ApiError] = {}
        for write in self.writes:
            try:
                result = write.execute(clients)
            except ApiError as error:
                failures[write.cluster] = error
                continue
            if result is not None:
                stored[write.cluster] = result
        return Outcome(stored, failures)
