"""What is read for a decision about one ClusterAddon, in the order in which things must be there.

The first obstacle ends the reading: what would come after it does not matter yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared import charts
from shared.api import cluster as contract
from shared.api.conditions import is_true
from shared.api.resources import CLUSTER
from shared.clients import Clients, Found
from shared.kube import ApiError, Key, Object, deleting, dig, key_of
from shared.releases.naming import ReleaseName
from shared.releases.release import Release
from shared.releases.store import Corrupted
from shared.storage import StorageError
from shared.workload.reach import Reached, Unreachable, reach


@dataclass(frozen=True)
class Facts:
    """What a chart may ask about: the `version` (`v1.36.3`) and what is served (`apps/v1`, `apps/v1/Deployment`)."""

    version: str
    api_versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assets:
    """A release's files, as far as a rollout needs them."""

    release: Release
    chart: bytes
    values_template: str | None


@dataclass(frozen=True)
class MissingAssets:
    """The release is not in storage (any more); `failure` says why the last fetch failed, if one did, and when."""

    tag: str
    failure: str = ""
    failed_at: datetime | None = None


_NOTHING = Found("unreferenced")


@dataclass(frozen=True)
class Observed:
    addon: Object | None
    cluster: Object | None = None
    release: ReleaseName | None = None
    """What the Cluster's class asks for; None for a class that names no cluster stack."""
    reach: Reached | Unreachable | None = None
    assets: Assets | MissingAssets | None = None
    facts: Facts | None = None
    control_plane: Found = _NOTHING
    infrastructure: Found = _NOTHING


def observe(clients: Clients, key: Key, addon: Object | None) -> Observed:
    if addon is None:
        return Observed(None)
    reference = dig(addon, "spec.clusterRef", {})
    cluster = clients.management.find(CLUSTER, Key(key.namespace, reference.get("name") or "-"))
    if cluster is None or deleting(cluster) or deleting(addon) or contract.is_paused(cluster):
        return Observed(addon, cluster)
    release = ReleaseName.from_class_name(contract.class_name(cluster) or "")
    if release is None or applied(addon, cluster):
        return Observed(addon, cluster, release)
    reached = reach(clients, key_of(cluster))
    if isinstance(reached, Unreachable):
        return Observed(addon, cluster, release, reached)
    assets = _assets(clients, release)
    if isinstance(assets, MissingAssets):
        return Observed(addon, cluster, release, reached, assets)
    facts = _facts(reached, assets)
    if isinstance(facts, Unreachable):
        return Observed(addon, cluster, release, facts)
    return Observed(
        addon,
        cluster,
        release,
        reached,
        assets,
        facts,
        control_plane=clients.look_up(contract.control_plane_ref(cluster), key.namespace),
        infrastructure=clients.look_up(contract.infrastructure_ref(cluster), key.namespace),
    )


def applied(addon: Object, cluster: Object) -> bool:
    """True once the addons of the Cluster's class are in the workload cluster: nothing is left to do."""
    conditions = dig(addon, "status.conditions", [])
    return bool(
        dig(addon, "spec.clusterStack") == contract.class_name(cluster)
        and dig(addon, "status.ready") is True
        and is_true(conditions, "HelmChartApplied")
        and is_true(conditions, "ClusterReady")
    )


def _facts(reach: Reached, assets: Assets) -> Facts | Unreachable:
    """The live cluster's for a chart that asks; any other is rendered without a request for them."""
    try:
        asks = charts.needs_cluster_facts(charts.inspect(assets.chart, assets.release.addon_chart))
    except charts.ChartError:
        asks = False  # rendering will say what is wrong with it
    if not asks:
        return Facts(assets.release.metadata.kubernetes)
    try:
        version = reach.workload.client.request("GET", "/version", subject="version")["gitVersion"]
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell its version: {error}")
    served = {name for api_version, kind in reach.served for name in (api_version, f"{api_version}/{kind}")}
    return Facts(version, tuple(sorted(served)))


def _assets(clients: Clients, release: ReleaseName) -> Assets | MissingAssets:
    """Any trouble with storage is a wait: the assets will come, or come again."""
    store = clients.releases
    try:
        stored = store.load(release.tag)
        if stored is None:
            failure = store.failure(release.tag)
            return MissingAssets(release.tag, *failure) if failure else MissingAssets(release.tag)
        template = store.read(stored, stored.values_template).decode() if stored.values_template else None
        return Assets(stored, store.read(stored, stored.addon_chart), template)
    except (Corrupted, StorageError, UnicodeDecodeError) as error:
        return MissingAssets(release.tag, str(error))


def values_context(observed: Observed) -> dict[str, Any]:
    """What a values template sees: `.Cluster` always, the other two where the Cluster refers to them."""
    context: dict[str, Any] = {"Cluster": observed.cluster}
    if observed.control_plane.object is not None:
        context["ControlPlane"] = observed.control_plane.object
    if observed.infrastructure.object is not None:
        context["InfraCluster"] = observed.infrastructure.object
    return context
