"""Reads the inputs of a decision about one ClusterAddon.

Inputs are read in the order of their dependence, up to the first that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared import watch_filter
from shared.addons import manifest_history, resolve, succession
from shared.addons.context import (
    AwaitingReadiness,
    ReconcileContext,
    ReleaseContext,
    RemovalContext,
    RollbackContext,
    UpToDate,
)
from shared.addons.owner import OWNER
from shared.addons.status import (
    is_awaiting_readiness,
    is_removal_requested,
    is_rollback_requested,
    is_up_to_date,
    names_another_cluster,
)
from shared.addons.target import SyncTarget
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, SECRET
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.applier.desired import UnknownKinds
from shared.applier.policy import Policy, PolicyError
from shared.charts import ChartError
from shared.clients import Clients
from shared.event import Event
from shared.kube import Key, NotServed, Object, deleting, dig, key_of, owned_by
from shared.releases.missing_assets import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import ReleaseNotShared
from shared.runtime import Request

from . import readiness
from .step import ReleaseStep, find_step

Finding = (
    PolicyError
    | ChartError
    | UpToDate
    | ConnectionFailed
    | AwaitingReadiness
    | MissingAssets
    | ReleaseNotShared
    | RemovalContext
    | RollbackContext
    | ReleaseStep
)


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one ClusterAddon."""

    addon: Object | None
    cluster: Object | None = None
    release: ReleaseName | None = None
    """The release that the Cluster's class belongs to; None if the class does not belong to a cluster stack."""
    finding: Finding | None = None
    """The missing prerequisite, or the next step; None if no other input is needed."""
    moved: manifest_history.StoredManifest | None = None
    """The last applied objects of an addon that was moved with its Cluster."""
    record: Object | None = None
    """The record of a deleted ClusterAddon of this Cluster, for its successor."""

    @property
    def context(self) -> ReconcileContext | None:
        """The sync that is due; None if there is none."""
        found = self.finding.context if isinstance(self.finding, ReleaseStep) else self.finding
        return found if isinstance(found, ReconcileContext) else None


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the inputs of a decision.

    For an addon that is up to date, nothing but the Cluster is read, except at a resync, to look for drift. After a
    change of the kubeconfig Secret the function also connects to the workload cluster, because the Secret may name
    another server.
    """
    key, addon, resync = request.key, request.primary, request.event.resync
    check_connection = request.event.kind == SECRET.kind
    if addon is None:
        return Observed(None)
    reference = dig(addon, "spec.clusterRef", {})
    try:
        cluster = clients.management.find(CLUSTER, Key(key.namespace, reference.get("name") or "-"))
    except NotServed as error:
        watch_filter.require(addon)
        return Observed(addon, finding=ConnectionFailed(str(error), "Error"))
    watch_filter.require(cluster or addon)
    if cluster is None or deleting(cluster) or deleting(addon) or cluster_api.is_paused(cluster):
        return Observed(addon, cluster)
    if names_another_cluster(addon, cluster):
        is_moved = owned_by(addon, cluster)
        return Observed(addon, cluster, moved=manifest_history.read_applied(clients, addon) if is_moved else None)
    if succession.is_successor(addon) and (record := succession.read_record(clients, addon, cluster)):
        return Observed(addon, cluster, record=record)
    if not watch_filter.is_same(addon, cluster):
        return Observed(addon, cluster)
    try:
        policy = Policy.of(OWNER, cluster, addon)
    except PolicyError as error:
        return Observed(addon, cluster, finding=error)
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    if is_removal_requested(cluster):
        return Observed(addon, cluster, name, _find_removal(clients, addon, cluster, policy))
    if name is None:
        return Observed(addon, cluster)
    done = is_up_to_date(addon, cluster)
    if done and not check_connection and not (resync and _resync_can_differ(addon, policy)):
        return Observed(addon, cluster, name, UpToDate())
    return Observed(
        addon, cluster, name, _find_work(clients, addon, cluster, policy, name, done=done, event=request.event)
    )


def _resync_can_differ(addon: Object, policy: Policy) -> bool:
    """Returns whether a resync can find a difference: drift, lost health, or a newer Kubernetes than the charts saw."""
    recorded = dig(addon, "status.kubernetesVersion")
    return policy.drift != "ignore" or bool(recorded) or readiness.can_lose_health(addon, policy)


def _find_removal(clients: Clients, addon: Object, cluster: Object, policy: Policy) -> Finding:
    if is_up_to_date(addon, cluster):
        return UpToDate()
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return connection
    entries = inventory.load(dig(addon, "status.resources"))
    target = SyncTarget("", "", hook="removal", cluster_uid=cluster["metadata"]["uid"])
    return RemovalContext(addon=addon, policy=policy, connection=connection, inventory=entries, target=target)


def _find_work(
    clients: Clients, addon: Object, cluster: Object, policy: Policy, name: ReleaseName, *, done: bool, event: Event
) -> Finding:
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return connection
    entries = inventory.load(dig(addon, "status.resources"))
    if is_awaiting_readiness(addon, cluster) and not (event.is_look and policy.drift != "ignore"):
        return AwaitingReadiness(policy, connection, entries)
    if done and policy.drift == "ignore":
        recorded = dig(addon, "status.kubernetesVersion")
        if (event.resync and not recorded) or resolve.server_version(connection) == recorded:
            if event.resync and readiness.can_lose_health(addon, policy):
                return AwaitingReadiness(policy, connection, readiness.to_look_at(entries))
            return UpToDate()
    if is_rollback_requested(addon, cluster):
        manifest = manifest_history.read_previous(clients, addon)
        uid = cluster["metadata"]["uid"]
        target = SyncTarget(manifest.class_name, manifest.version, hook="rollback", cluster_uid=uid)
        return RollbackContext(
            addon=addon, policy=policy, connection=connection, inventory=entries, target=target, manifest=manifest
        )
    try:
        found = resolve.resolve_release(clients, addon, cluster, policy, name, connection)
    except ChartError as error:  # the charts cannot be read, so the capabilities they need are unknown
        return error
    if not isinstance(found, ReleaseContext):
        return found
    step = find_step(found)
    if isinstance(step, UnknownKinds):
        connection.cluster.discovery.invalidate()  # the next look may find that they are served
    return ReleaseStep(found, step)
