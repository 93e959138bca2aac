"""Reads all inputs for rendering a release for one cluster and applying it there.

Reads in the order of dependence, and stops at the first input that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import cluster as cluster_api
from shared.applier import inventory
from shared.applier.connection import ClusterConnection, ConnectionFailed
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import Policy
from shared.charts import Capabilities, LiveCluster, api_list
from shared.clients import Clients
from shared.kube import ApiError, Key, Object, dig, key_of
from shared.references import LookupResult, get_reference
from shared.releases.missing_assets import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import ReleaseNotShared, resolve_source

from . import stored_values
from .chart_objects import AddonAssets, chart_traits, load_assets
from .context import ReleaseContext
from .first_values import may_vary
from .labelled import labelled_entries
from .target import Progress, StagePosition, SyncTarget


def resolve_release(
    clients: Clients, addon: Object, cluster: Object, policy: Policy, name: ReleaseName, connection: ClusterConnection
) -> ConnectionFailed | MissingAssets | ReleaseNotShared | ReleaseContext:
    """Reads the inputs of a sync of release `name`.

    Args:
        clients: The clients of the management cluster and of storage.
        addon: The ClusterAddon.
        cluster: The Cluster, whose class may differ from the stored one in a preview.
        policy: The policy of the sync.
        name: The release that the Cluster's class names.
        connection: The workload cluster.

    Returns:
        The context of the sync, or the first input that is missing.

    Raises:
        ChartError: The charts exceed a limit, so it is unknown what they need.
        ApiError: The management cluster's API server failed.
    """
    assets = _assets(clients, name, cluster)
    if isinstance(assets, (MissingAssets, ReleaseNotShared)):
        return assets
    capabilities = _capabilities(connection, assets)
    if isinstance(capabilities, ConnectionFailed):
        return capabilities
    entries = _inventory(addon, connection)
    if isinstance(entries, ConnectionFailed):
        return entries
    target = SyncTarget.of_release(addon, cluster, assets, capabilities)
    progress = Progress.for_target(target, addon, assets)
    control_plane = get_reference(clients, cluster_api.control_plane_ref(cluster), key_of(cluster).namespace)
    infrastructure = get_reference(clients, cluster_api.infrastructure_ref(cluster), key_of(cluster).namespace)
    context = {"Cluster": cluster, "ControlPlane": control_plane.object, "InfraCluster": infrastructure.object}
    return ReleaseContext(
        addon=addon,
        policy=policy,
        connection=connection,
        inventory=entries,
        target=target,
        progress=progress,
        name=name,
        assets=assets,
        capabilities=capabilities,
        template_context={key: value for key, value in context.items() if value is not None},
        unreadable=_read_problem(control_plane) or _read_problem(infrastructure),
        stored_values=stored_values.read_values(clients, addon) if may_vary(assets) else stored_values.StoredValues(),
        condition_objects=_condition_objects(connection, progress.current),
    )


def _assets(clients: Clients, name: ReleaseName, cluster: Object) -> AddonAssets | MissingAssets | ReleaseNotShared:
    """Reads the release's files, unless the source does not share them with the Cluster's namespace."""
    since = cluster["metadata"]["resourceVersion"]
    place, own = cluster_api.class_namespace(cluster), key_of(cluster).namespace
    resolved = resolve_source(clients, place, name, since=since)
    if not resolved.allows(own):
        resolved = resolve_source(clients, place, name)  # the namespace may have been allowed since
    if not resolved.allows(own):
        return ReleaseNotShared(name.tag, place, own)
    return load_assets(clients.releases.in_scope(resolved.scope), name.tag)


def _capabilities(connection: ClusterConnection, assets: AddonAssets) -> Capabilities | ConnectionFailed:
    """Returns the live cluster's capabilities if a chart uses them, otherwise the release's, without a request."""
    if not chart_traits(assets).needs_cluster_facts:
        return Capabilities(assets.release.metadata.kubernetes)
    return live_capabilities(connection)


def live_capabilities(connection: ClusterConnection) -> Capabilities | ConnectionFailed:
    """Reads version and kinds of the workload cluster."""
    kubernetes = server_version(connection)
    if isinstance(kubernetes, ConnectionFailed):
        return kubernetes
    try:
        # A chart omits objects of kinds that it does not find, so this does not rely on cached discovery.
        connection.cluster.discovery.invalidate()
        kinds = connection.cluster.discovery.served()
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not list the kinds that it serves: {error}")
    return Capabilities(kubernetes, api_list(kinds), LiveCluster(connection.cluster.client, kubernetes, kinds))


def server_version(connection: ClusterConnection) -> str | ConnectionFailed:
    """Returns the Kubernetes version of the workload cluster (`v1.36.3`)."""
    try:
        return connection.cluster.client.version()
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not report its version: {error}")


def _inventory(addon: Object, connection: ClusterConnection) -> Sequence[InventoryEntry] | ConnectionFailed:
    """Returns the inventory; without one, for addons of another program, the objects with our label."""
    entries = inventory.load(dig(addon, "status.resources"))
    if entries or dig(addon, "status.digest") or not dig(addon, "spec.clusterStack"):
        return entries
    try:
        connection.cluster.discovery.invalidate()  # with old discovery, objects of new kinds would be missed
        return labelled_entries(connection.cluster, connection.cluster.discovery.served().values())
    except ApiError as error:
        return ConnectionFailed(f"the workload API server does not list the objects of the addons: {error}")


def _condition_objects(
    connection: ClusterConnection, position: StagePosition | None
) -> Mapping[str, Object | None] | ConnectionFailed:
    """Reads the objects that the condition of the stage refers to, by their keys in the expression."""
    condition = position.condition if position else None
    found: dict[str, Object | None] = {}
    try:
        for one in condition.objects if condition else ():
            resource = connection.cluster.discovery.resource(one.api_version, one.kind)
            key = Key(one.namespace if resource and resource.namespaced else "", one.name)
            found[one.key] = connection.cluster.client.find(resource, key) if resource else None
    except ApiError as error:
        return ConnectionFailed(f"the objects of a stage's condition cannot be read: {error}")
    return found


def _read_problem(found: LookupResult) -> str:
    """Returns why a referenced object is not available; empty if it is, or if there is no reference."""
    if found.state in ("absent", "failed"):
        return found.error or f"the {found.kind} that the Cluster refers to does not exist"
    return ""
