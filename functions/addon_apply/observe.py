"""What is read for a decision about one ClusterAddon, in the order in which things must be there.

The first obstacle ends the reading: what would come after it does not matter yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.addons.assets import Assets, load
from shared.addons.content import Facts, traits
from shared.addons.generated import may_vary
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER
from shared.applier import inventory
from shared.applier.adopt import labelled
from shared.applier.inventory import Entry
from shared.applier.policy import Policy, PolicyError
from shared.applier.reach import Reached, Unreachable, reach
from shared.charts import ChartError, LiveCluster
from shared.clients import Clients, Found
from shared.kube import ApiError, Key, NotServed, Object, deleting, dig, key_of
from shared.releases.missing import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.origin import NotShared, of_release

from . import generated, history
from .case import Awaited, Release, Rollback, Settled
from .standing import at_rest, awaits_readiness, is_anothers
from .target import Position, Progress, Target

Finding = PolicyError | ChartError | Settled | Unreachable | Awaited | MissingAssets | NotShared | Rollback | Release


@dataclass(frozen=True)
class Observed:
    addon: Object | None
    cluster: Object | None = None
    release: ReleaseName | None = None
    """What the Cluster's class asks for; None for a class that names no cluster stack."""
    found: Finding | None = None
    """What stands in the way, or else what there is to do. None where these objects alone say that nothing is."""


def observe(clients: Clients, key: Key, addon: Object | None, *, resync: bool = False, doubt: bool = False) -> Observed:
    """With `resync` drift is looked for, with `doubt` only whether the cluster answers still."""
    if addon is None:
        return Observed(None)
    reference = dig(addon, "spec.clusterRef", {})
    try:
        cluster = clients.management.find(CLUSTER, Key(key.namespace, reference.get("name") or "-"))
    except NotServed as error:
        return Observed(addon, found=Unreachable(str(error), "Error"))
    if cluster is None or deleting(cluster) or deleting(addon) or cluster_api.is_paused(cluster):
        return Observed(addon, cluster)
    if is_anothers(addon, cluster):
        return Observed(addon, cluster)
    try:
        policy = Policy.of(cluster, addon)
    except PolicyError as error:
        return Observed(addon, cluster, found=error)
    name = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    if name is None:
        return Observed(addon, cluster)
    done = at_rest(addon, cluster)
    if done and not doubt and not (resync and _may_differ(addon, policy)):
        return Observed(addon, cluster, name, Settled())
    return Observed(addon, cluster, name, _find(clients, addon, cluster, policy, name, done=done, resync=resync))


def _may_differ(addon: Object, policy: Policy) -> bool:
    """Whether another look at a settled cluster can find anything: drift, or a newer Kubernetes than charts know."""
    return policy.drift != "ignore" or bool(dig(addon, "status.kubernetesVersion"))


def _find(
    clients: Clients, addon: Object, cluster: Object, policy: Policy, name: ReleaseName, *, done: bool, resync: bool
) -> Finding:
    reached = reach(clients, key_of(cluster))
    if isinstance(reached, Unreachable):
        return reached
    known = inventory.load(dig(addon, "status.resources"))
    if awaits_readiness(addon, cluster) and not (resync and policy.drift != "ignore"):
        return Awaited(policy, reached, known)
    if done and policy.drift == "ignore" and _version(reached) == dig(addon, "status.kubernetesVersion"):
        return Settled()
    if history.asked(addon, cluster):
        kept = history.read(clients, addon)
        goal = Target(kept.class_name, kept.version, hook="rollback", cluster_uid=cluster["metadata"]["uid"])
        return Rollback(addon=addon, policy=policy, reach=reached, known=known, goal=goal, kept=kept)
    try:
        return _release(clients, addon, cluster, policy, name, reached)
    except ChartError as error:  # nobody can tell what its charts need to be told
        return error


def _release(
    clients: Clients, addon: Object, cluster: Object, policy: Policy, name: ReleaseName, reached: Reached
) -> Unreachable | MissingAssets | NotShared | Release:
    assets = _assets(clients, name, cluster)
    if isinstance(assets, (MissingAssets, NotShared)):
        return assets
    facts = _facts(reached, assets)
    if isinstance(facts, Unreachable):
        return facts
    known = _known(addon, reached)
    if isinstance(known, Unreachable):
        return known
    goal = Target.of_release(addon, cluster, assets, facts)
    way = Progress.towards(goal, addon, assets)
    bound = _bound(reached, way.current)
    control_plane = clients.look_up(cluster_api.control_plane_ref(cluster), key_of(cluster).namespace)
    infrastructure = clients.look_up(cluster_api.infrastructure_ref(cluster), key_of(cluster).namespace)
    context = {"Cluster": cluster, "ControlPlane": control_plane.object, "InfraCluster": infrastructure.object}
    return Release(
        addon=addon,
        policy=policy,
        reach=reached,
        known=known,
        goal=goal,
        way=way,
        name=name,
        assets=assets,
        facts=facts,
        context={key: value for key, value in context.items() if value is not None},
        unreadable=_unreadable(control_plane) or _unreadable(infrastructure),
        generated=generated.read(clients, addon) if may_vary(assets) else generated.Kept(),
        bound=bound,
    )


def _assets(clients: Clients, name: ReleaseName, cluster: Object) -> Assets | MissingAssets | NotShared:
    since = cluster["metadata"]["resourceVersion"]
    place, own = cluster_api.class_namespace(cluster), key_of(cluster).namespace
    origin = of_release(clients, place, name, since=since)
    if not origin.is_open_to(own):
        origin = of_release(clients, place, name)  # it may have been opened a moment ago
    if not origin.is_open_to(own):
        return NotShared(name.tag, place, own)
    return load(clients.releases.within(origin.scope), name.tag)


def _facts(reached: Reached, assets: Assets) -> Facts | Unreachable:
    """The live cluster's for charts that ask; any other is rendered without a request for them."""
    if not traits(assets).asks:
        return Facts(assets.release.metadata.kubernetes)
    version = _version(reached)
    if isinstance(version, Unreachable):
        return version
    try:
        # A chart leaves out what it does not find: what is known of a moment ago is not enough for that.
        reached.workload.discovery.forget()
        kinds = reached.workload.discovery.served()
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell what it serves: {error}")
    served = {name for api_version, kind in kinds for name in (api_version, f"{api_version}/{kind}")}
    return Facts(version, tuple(sorted(served)), LiveCluster(reached.workload.client, version, kinds))


def _version(reached: Reached) -> str | Unreachable:
    try:
        return reached.workload.client.version()
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell its version: {error}")


def _known(addon: Object, reached: Reached) -> Sequence[Entry] | Unreachable:
    """The inventory; of addons that another program applied in stages, and so forgot, what carries our label."""
    entries = inventory.load(dig(addon, "status.resources"))
    if entries or dig(addon, "status.digest") or not dig(addon, "spec.clusterStack"):
        return entries
    try:
        reached.workload.discovery.forget()  # what is of a kind that came since would stay for ever
        return labelled(reached.workload, reached.workload.discovery.served().values())
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell what it has of ours: {error}")


def _bound(reached: Reached, at: Position | None) -> Mapping[str, Object | None] | Unreachable:
    condition = at.condition if at else None
    found: dict[str, Object | None] = {}
    try:
        for one in condition.objects if condition else ():
            resource = reached.workload.discovery.resource(one.api_version, one.kind)
            key = Key(one.namespace if resource and resource.namespaced else "", one.name)
            found[one.key] = reached.workload.client.find(resource, key) if resource else None
    except ApiError as error:
        return Unreachable(f"the workload API server does not answer about a stage's condition: {error}")
    return found


def _unreadable(found: Found) -> str:
    if found.state in ("absent", "failed"):
        return found.error or f"{found.kind} that the Cluster refers to does not exist"
    return ""
