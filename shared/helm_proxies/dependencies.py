"""The HelmChartProxies of `spec.dependsOn`: in which Clusters they are ready, and whether they depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.api.conditions import READY, get_condition, is_true
from shared.api.resources import HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.kube import Key, Object, deleting, dig, key_of

from . import construction, selection
from .names import HCP_NAME_LABEL

_MOST = 64
"""HelmChartProxies that are read to find a cycle."""


@dataclass(frozen=True)
class Dependencies:
    """The state of the dependencies in `spec.dependsOn`.

    Attributes:
        ready: The names of the Clusters in which a dependency is ready, by the name of the dependency.
        problem: Why no dependency can ever be ready; empty if they can.
    """

    ready: Mapping[str, frozenset[str]] = field(default_factory=dict)
    problem: str = ""

    def missing(self, cluster: str) -> str:
        """Returns why a Cluster cannot be changed yet; empty if all dependencies are ready there."""
        if self.problem:
            return self.problem
        names = [name for name, clusters in self.ready.items() if cluster not in clusters]
        return f"HelmChartProxy {', '.join(names)} is not ready in the Cluster yet" if names else ""


def read(clients: Clients, proxy: Object) -> Dependencies:
    """Reads the dependencies of a HelmChartProxy and their releases; sends no request if there are none."""
    names = dig(proxy, "spec.dependsOn", [])
    if not names:
        return Dependencies()
    own = key_of(proxy)
    found: dict[str, Object | None] = {own.name: proxy}

    def names_of(name: str) -> list[str]:
        if name not in found:
            found[name] = clients.management.find(HELM_CHART_PROXY, Key(own.namespace, name))
        return list(dig(found[name] or {}, "spec.dependsOn", []))

    if cycle := find_cycle(own.name, names_of):
        return Dependencies(problem=f"the dependencies form a cycle: {' → '.join(cycle)}")
    ready: dict[str, frozenset[str]] = {}
    for name in names:
        label = f"{HCP_NAME_LABEL}={construction.name_as_label(name)}"
        releases = clients.management.list(HELM_RELEASE_PROXY, own.namespace, selector=label)
        dependency = found.get(name)
        current = dependency is not None and is_observed(dependency)
        ready[name] = frozenset(selection.cluster_of(one) for one in releases if current and is_ready(one))
    return Dependencies(ready)


def find_cycle(start: str, names_of: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Returns the names of the shortest cycle through `start`, which is first and last; empty if there is none."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for path in paths:  # grows
        for name in names_of(path[-1]):
            if name == start:
                return (*path, name)
            if name not in seen and len(seen) < _MOST:
                seen.add(name)
                paths.append((*path, name))
    return ()


def is_ready(release: Object) -> bool:
    """Returns whether a HelmReleaseProxy is ready with its present spec."""
    return not deleting(release) and is_observed(release) and is_true(dig(release, "status.conditions"), READY)


def has_failed(release: Object) -> bool:
    """Returns whether the present spec of a HelmReleaseProxy has failed, by the reason of its condition `Ready`."""
    ready = get_condition(dig(release, "status.conditions"), READY) or {}
    return is_observed(release) and ready.get("status") == "False" and str(ready.get("reason")).endswith("Failed")


def is_observed(obj: Object) -> bool:
    """Returns whether the status is about the present spec."""
    return bool(dig(obj, "status.observedGeneration", 0) == dig(obj, "metadata.generation", 0))
