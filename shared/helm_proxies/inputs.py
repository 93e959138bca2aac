"""Reads the Clusters that a HelmChartProxy selects, its HelmReleaseProxies, and renders its templates."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.charts import ChartError
from shared.clients import Clients
from shared.kube import ApiError, Key, Object, deleting, dig, key_of
from shared.kube.selectors import validated
from shared.references import get_reference

from . import construction, dependencies, selection, values
from .construction import Rendered
from .dependencies import Dependencies
from .names import HCP_NAME_LABEL

_RENDERING_SECONDS = 60.0
"""Seconds for the templates of all Clusters: a delivery ends after 120, and a template may be slow on purpose."""
_LATE = "its values are not rendered yet, because the templates of the other Clusters took too long"
_ROOTS = {values.CONTROL_PLANE: cluster_api.control_plane_ref, values.INFRA_CLUSTER: cluster_api.infrastructure_ref}


@dataclass(frozen=True)
class Failure:
    """The templates could not be rendered for a Cluster. A `temporary` failure may end without an event."""

    message: str
    temporary: bool = False


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one HelmChartProxy."""

    proxy: Object | None
    controller: str = ""
    """The Deployment of the original controller that runs."""
    clusters: tuple[Object, ...] = ()
    """The selected Clusters, by name."""
    releases: tuple[Object, ...] = ()
    rendered: Mapping[str, Rendered | Failure] = field(default_factory=dict)
    """The rendered templates by the name of the Cluster, where a release may have to be created or changed."""
    paused: frozenset[str] = frozenset()
    """The names of paused Clusters that have a release and are not selected."""
    failure: str = ""
    """Why the Clusters could not be selected."""
    dependencies: Dependencies = field(default_factory=Dependencies)


def read(clients: Clients, proxy: Object) -> Observed:
    """Reads the Clusters, releases and dependencies of a HelmChartProxy, and renders its templates."""
    own = key_of(proxy)
    label = construction.name_as_label(own.name)
    releases = tuple(clients.management.list(HELM_RELEASE_PROXY, own.namespace, selector=f"{HCP_NAME_LABEL}={label}"))
    if deleting(proxy):
        return Observed(proxy, releases=releases)
    try:
        selector = validated(dig(proxy, "spec.clusterSelector", {}))
        listed = list(clients.management.list(CLUSTER, own.namespace, selector=selector))
    except (ValueError, ApiError) as error:
        return Observed(proxy, releases=releases, failure=str(error))
    clusters = tuple(sorted((CLUSTER.upgraded(cluster) for cluster in listed), key=key_of))
    rendered = _render_all(clients, proxy, clusters, selection.by_cluster(releases))
    paused = frozenset(_paused(clients, own.namespace, selection.orphans(releases, clusters)))
    return Observed(proxy, "", clusters, releases, rendered, paused, dependencies=dependencies.read(clients, proxy))


def _render_all(
    clients: Clients, proxy: Object, clusters: tuple[Object, ...], releases: Mapping[str, list[Object]]
) -> dict[str, Rendered | Failure]:
    """Renders for one Cluster after the other, in an order that differs each time, until the time is over."""
    found: dict[str, Rendered | Failure] = {}
    until = time.monotonic() + _RENDERING_SECONDS
    for cluster in random.sample(clusters, len(clusters)):
        name = key_of(cluster).name
        existing = next(iter(releases.get(name, [])), None)
        settled = existing is not None and construction.is_kept_as_installed(proxy, existing)
        if not (settled or deleting(cluster) or cluster_api.is_paused(cluster)):
            late = time.monotonic() > until
            found[name] = Failure(f"{name}: {_LATE}", temporary=True) if late else _render(clients, proxy, cluster)
    return found


def _render(clients: Clients, proxy: Object, cluster: Object) -> Rendered | Failure:
    """Renders the templates for one Cluster, and reads the objects that they name."""
    roots: dict[str, Object] = {}
    for root, reference in _ROOTS.items():
        if not values.reads(proxy, root):
            continue
        found = get_reference(clients, reference(cluster), key_of(cluster).namespace, by_contract=True)
        if found.state in ("absent", "failed"):
            problem = found.error or f"the {found.kind} does not exist"
            return Failure(f"{key_of(cluster).name}: {problem}", temporary=True)
        if found.object is not None:
            roots[root] = found.object
    try:
        return values.render(proxy, cluster, roots)
    except ChartError as error:
        return Failure(str(error))


def _paused(clients: Clients, namespace: str, releases: list[Object]) -> list[str]:
    """Returns the names of the Clusters of these releases that exist and are paused."""
    names = sorted({selection.cluster_of(release) for release in releases})
    found = [clients.management.find(CLUSTER, Key(namespace, name)) for name in names if name]
    return [key_of(cluster).name for cluster in found if cluster is not None and cluster_api.is_paused(cluster)]
