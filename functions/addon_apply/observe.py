"""What is read for a decision about one ClusterAddon, in the order in which things must be there.

The first obstacle ends the reading: what would come after it does not matter yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.addons import manifest_history, resolve
from shared.addons.context import AwaitingReadiness, ReleaseContext, RollbackContext, UpToDate
from shared.addons.status import belongs_to_earlier_cluster, is_awaiting_readiness, is_up_to_date
from shared.addons.target import RolloutTarget
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed, connect_workload
from shared.applier.policy import Policy, PolicyError
from shared.charts import ChartError
from shared.clients import Clients
from shared.kube import Key, NotServed, Object, deleting, dig, key_of
from shared.releases.missing import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.source_resolution import ReleaseNotShared

Finding = (
    PolicyError
    | ChartError
    | UpToDate
    | ConnectionFailed
    | AwaitingReadiness
    | MissingAssets
    | ReleaseNotShared
    | RollbackContext
    | ReleaseContext
)


@dataclass(frozen=True)
class Observed:
    addon: Object | None
    cluster: Object | None = None
    release: ReleaseName | None = None
    """What the Cluster's class asks for; None for a class that names no cluster stack."""
    finding: Finding | None = None
    """What stands in the way, or else what there is to do. None where these objects alone say that nothing is."""


def observe(clients: Clients, key: Key, addon: Object | None, *, resync: bool = False, doubt: bool = False) -> Observed:
    """With `resync` drift is looked for, with `doubt` only whether the cluster answers still."""
    if addon is None:
        return Observed(None)
    reference = dig(addon, "spec.clusterRef", {})
    try:
        cluster = clients.management.find(CLUSTER, Key(key.namespace, reference.get("name") or "-"))
    except NotServed as error:
        return Observed(addon, finding=ConnectionFailed(str(error), "Error"))
    if cluster is None or deleting(cluster) or deleting(addon) or cluster_api.is_paused(cluster):
        return Observed(addon, cluster)
    if belongs_to_earlier_cluster(addon, cluster):
        return Observed(addon, cluster)
    try:
        policy = Policy.of(cluster, addon)
    except PolicyError as error:
        return Observed(addon, cluster, finding=error)
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    if name is None:
        return Observed(addon, cluster)
    done = is_up_to_date(addon, cluster)
    if done and not doubt and not (resync and _resync_can_differ(addon, policy)):
        return Observed(addon, cluster, name, UpToDate())
    return Observed(addon, cluster, name, _find_work(clients, addon, cluster, policy, name, done=done, resync=resync))


def _resync_can_differ(addon: Object, policy: Policy) -> bool:
    """Whether another look at a settled cluster can find anything: drift, or a newer Kubernetes than charts know."""
    return policy.drift != "ignore" or bool(dig(addon, "status.kubernetesVersion"))


def _find_work(
    clients: Clients, addon: Object, cluster: Object, policy: Policy, name: ReleaseName, *, done: bool, resync: bool
) -> Finding:
    connection = connect_workload(clients, key_of(cluster))
    if isinstance(connection, ConnectionFailed):
        return connection
    entries = inventory.load(dig(addon, "status.resources"))
    if is_awaiting_readiness(addon, cluster) and not (resync and policy.drift != "ignore"):
        return AwaitingReadiness(policy, connection, entries)
    if (
        done
        and policy.drift == "ignore"
        and resolve.server_version(connection) == dig(addon, "status.kubernetesVersion")
    ):
        return UpToDate()
    if manifest_history.is_rollback_requested(addon, cluster):
        kept = manifest_history.read_previous(clients, addon)
        target = RolloutTarget(kept.class_name, kept.version, hook="rollback", cluster_uid=cluster["metadata"]["uid"])
        return RollbackContext(
            addon=addon, policy=policy, connection=connection, inventory=entries, target=target, manifest=kept
        )
    try:
        return resolve.resolve_release(clients, addon, cluster, policy, name, connection)
    except ChartError as error:  # nobody can tell what its charts need to be told
        return error
