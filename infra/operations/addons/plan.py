"""The command `plan`: previews what a release would change in a workload cluster, without changing anything.

The release is resolved as `addon_apply` resolves it, for the Cluster with the release's class and for the ClusterAddon
without the record of a sync in progress.
"""

from __future__ import annotations

import os
from pathlib import Path

from shared.addons import resolve
from shared.addons.context import ReleaseContext
from shared.addons.owner import OWNER
from shared.addons.status import belongs_to_earlier_cluster
from shared.api import cluster as cluster_api
from shared.api.names import ROLLBACK_ANNOTATION, addon_of
from shared.api.resources import CLUSTER_ADDON
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.applier.policy import Policy, PolicyError
from shared.charts import ChartError
from shared.clients import Clients
from shared.download import SourceError
from shared.kube import Client, Object, deleting, dig, key_of
from shared.kube.dry_run import DryRunClient
from shared.releases.missing_assets import MissingAssets
from shared.releases.naming import InvalidName, ReleaseName
from shared.releases.release import InvalidRelease
from shared.releases.source_resolution import ReleaseNotShared, ScopedSource, resolve_source
from shared.releases.sources.folder import FolderSource
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore, StorageError

from ..failure import Failure
from ..memory_overlay import MemoryOverlay
from .release_plan import ReleasePlan, plan_release


def plan(management: Client, cluster: Object, release: str | None) -> ReleasePlan:
    """Plans a release for a Cluster.

    Args:
        management: The client of the management cluster; only dry runs are sent.
        cluster: The Cluster.
        release: The tag or the folder of a release; None for the release of the Cluster's class.

    Raises:
        Failure: The release cannot be read, rendered or compared.
    """
    dry = DryRunClient(management)
    clients = Clients(dry)
    if deleting(cluster):
        raise Failure(f"Cluster {key_of(cluster)} is being deleted, so nothing is applied to it")
    name = release_name(release, cluster)
    place, own = cluster_api.class_namespace(cluster), key_of(cluster).namespace
    resolved = resolve_source(clients, place, name)
    if not resolved.allows(own):
        raise Failure(ReleaseNotShared(name.tag, place, own).message)
    clients.releases = _store(name, release, resolved)
    supposed = _with_class(cluster, name.class_name)
    addon = dry.find(CLUSTER_ADDON, addon_of(cluster)) or _new_addon(cluster)
    return plan_release(_resolve(clients, _without_progress(addon), supposed, name), addon, cluster)


# -- the release and the objects after the change ----------------------------------------------------------------


def release_name(release: str | None, cluster: Object) -> ReleaseName:
    """Returns the name of the release in the option, by default of the Cluster's class. Raises `Failure`."""
    if release is None:
        class_name = cluster_api.class_name(cluster) or ""
        name = ReleaseName.from_class_name(class_name)
        if name is None:
            message = f"class {class_name!r} of Cluster {key_of(cluster)} does not belong to a cluster stack"
            raise Failure(f"{message}; give `--release`")
        return name
    folder = Path(release)
    if os.sep in release and not folder.is_dir():
        raise Failure(f"--release {release}: this folder does not exist")
    try:
        return ReleaseName.parse(folder.resolve().name if folder.is_dir() else release)
    except InvalidName as error:
        what = "the folder of a release is named like its tag" if folder.is_dir() else "neither a folder nor a tag"
        raise Failure(f"--release {release}: {what}: {error}") from error


def _store(name: ReleaseName, release: str | None, resolved: ScopedSource) -> ReleaseStore:
    """Returns a store that has the release where `addon_apply` looks for it; writes to it stay in memory."""
    memory = ReleaseStore(MemoryOverlay())
    folder = Path(release) if release is not None and Path(release).is_dir() else None
    missing = ""
    try:
        if folder is not None:
            memory.in_scope(resolved.scope).save(name.tag, FolderSource(folder.resolve().parent))
            return memory
        missing = f"release {name.tag} is not in object storage, and its source does not provide it: "
        try:
            stored = ReleaseStore(MemoryOverlay(ObjectStore.from_env()))
            if stored.in_scope(resolved.scope).load(name.tag) is not None:
                return stored
        except StorageError as error:
            missing = f"{error}, and the release's source does not provide it: "
        memory.in_scope(resolved.scope).save(name.tag, resolved.source)
        return memory
    except (SourceError, InvalidRelease) as error:
        raise Failure(f"{missing}{error}") from error


def _with_class(cluster: Object, class_name: str) -> Object:
    """Returns the Cluster with this class, and not paused."""
    spec = {**cluster.get("spec", {}), "paused": False}
    topology = dict(spec.get("topology") or {})
    if "class" in topology:
        topology["class"] = class_name
    else:
        topology["classRef"] = {**(topology.get("classRef") or {}), "name": class_name}
    annotations = {**dig(cluster, "metadata.annotations", {})}
    annotations.pop(cluster_api.PAUSED_ANNOTATION, None)
    return {
        **cluster,
        "metadata": {**cluster["metadata"], "annotations": annotations},
        "spec": {**spec, "topology": topology},
    }


def _new_addon(cluster: Object) -> Object:
    """Returns the ClusterAddon that `addon_create` would create."""
    key = addon_of(cluster)
    metadata = {"name": key.name, "namespace": key.namespace}
    reference = {"name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"]}
    return {**_TYPE, "metadata": metadata, "spec": {"clusterRef": reference}}


_TYPE = {"apiVersion": CLUSTER_ADDON.api_version, "kind": CLUSTER_ADDON.kind}


def _without_progress(addon: Object) -> Object:
    """Returns the addon without conditions, stages and a rollback request, so that a new sync is planned."""
    annotations = {**dig(addon, "metadata.annotations", {})}
    annotations.pop(ROLLBACK_ANNOTATION, None)
    status = {name: value for name, value in addon.get("status", {}).items() if name not in ("conditions", "stages")}
    return {**addon, "metadata": {**addon["metadata"], "annotations": annotations}, "status": status}


def _resolve(clients: Clients, addon: Object, cluster: Object, name: ReleaseName) -> ReleaseContext:
    """Returns the inputs of the sync; raises `Failure` if the addons cannot be rendered or compared."""
    if deleting(addon) or belongs_to_earlier_cluster(addon, cluster):
        raise Failure(
            "the ClusterAddon belongs to an earlier Cluster with the same name; functions recreate the ClusterAddon: "
            "try again afterwards"
        )
    try:
        policy = Policy.of(OWNER, cluster, addon)
        connection = connect_workload(clients, key_of(cluster))
        if isinstance(connection, ConnectionFailed):
            raise Failure(connection.message)
        found = resolve.resolve_release(clients, addon, cluster, policy, name, connection)
    except (PolicyError, ChartError) as error:
        raise Failure(str(error)) from error
    match found:
        case ConnectionFailed() | ReleaseNotShared() as obstacle:
            raise Failure(obstacle.message)
        case MissingAssets() as missing:
            raise Failure(
                missing.failure
                or f"release {missing.tag} is no longer in object storage: run the command again to fetch it"
            )
        case ReleaseContext() as release:
            if problem := release.assets.problem or release.unreadable:
                raise Failure(problem)
            return release
