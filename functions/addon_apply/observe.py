"""What is read for a decision about one ClusterAddon, in the order in which things must be there.

The first obstacle ends the reading: what would come after it does not matter yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.addons.assets import Assets, load
from shared.addons.content import Facts, asks
from shared.api import cluster as contract
from shared.api.conditions import get_condition, is_true
from shared.api.resources import CLUSTER
from shared.clients import Clients, Found
from shared.kube import ApiError, Key, Object, deleting, dig, key_of
from shared.releases.missing import MissingAssets
from shared.releases.naming import ReleaseName
from shared.releases.origin import of_release
from shared.workload import inventory
from shared.workload.adopt import labelled
from shared.workload.inventory import Entry
from shared.workload.policy import Policy, PolicyError
from shared.workload.reach import Reached, Unreachable, reach

from . import history
from .target import Progress, Target

_NOTHING = Found("unreferenced")


@dataclass(frozen=True)
class Observed:
    addon: Object | None
    cluster: Object | None = None
    policy: Policy | PolicyError = field(default_factory=Policy)
    release: ReleaseName | None = None
    """What the Cluster's class asks for; None for a class that names no cluster stack."""
    settled: bool = False
    """Everything is applied, and nothing asks for another look."""
    reach: Reached | Unreachable | None = None
    known: Sequence[Entry] = ()
    """The inventory."""
    awaited: bool = False
    """Everything is applied, and only not ready yet."""
    rollback: history.Kept | None = None
    """What is to be in the cluster instead of the release."""
    assets: Assets | MissingAssets | None = None
    facts: Facts | None = None
    bound: Mapping[str, Object | None] | Unreachable = field(default_factory=dict)
    """The objects that the current stage's condition is about; None for one that is not there."""
    control_plane: Found = _NOTHING
    infrastructure: Found = _NOTHING


def observe(clients: Clients, key: Key, addon: Object | None, *, resync: bool = False, doubt: bool = False) -> Observed:
    """With `resync` drift is looked for, with `doubt` only whether the cluster answers still."""
    if addon is None:
        return Observed(None)
    reference = dig(addon, "spec.clusterRef", {})
    cluster = clients.management.find(CLUSTER, Key(key.namespace, reference.get("name") or "-"))
    if cluster is None or deleting(cluster) or deleting(addon) or contract.is_paused(cluster):
        return Observed(addon, cluster)
    if is_anothers(addon, cluster):
        return Observed(addon, cluster)
    try:
        policy = Policy.of(cluster, addon)
    except PolicyError as error:
        return Observed(addon, cluster, error)
    release = ReleaseName.from_class_name(contract.class_name(cluster) or "")
    observed = Observed(addon, cluster, policy, release)
    done = at_rest(addon, cluster)
    if release is None or (done and not doubt and not (resync and _may_differ(addon, policy))):
        return replace(observed, settled=done)
    return _further(clients, observed, release, done=done)


def _further(clients: Clients, observed: Observed, release: ReleaseName, *, done: bool) -> Observed:
    addon, cluster, policy = observed.addon or {}, observed.cluster or {}, observed.policy
    reached = reach(clients, key_of(cluster))
    observed = replace(observed, reach=reached)
    if isinstance(reached, Unreachable):
        return observed
    if awaits_readiness(addon, cluster) and not history.asked(addon, cluster):
        return replace(observed, awaited=True, known=inventory.load(dig(addon, "status.resources")))
    if done and isinstance(policy, Policy) and policy.drift == "ignore":
        version = _version(reached)
        if version == dig(addon, "status.kubernetesVersion"):
            return replace(observed, settled=True)
    if history.asked(addon, cluster):
        kept = history.read(clients, addon)
        return replace(observed, rollback=kept, known=inventory.load(dig(addon, "status.resources")))
    assets = _assets(clients, release, cluster)
    observed = replace(observed, assets=assets)
    if isinstance(assets, MissingAssets):
        return observed
    facts = _facts(reached, assets)
    if isinstance(facts, Unreachable):
        return replace(observed, reach=facts)
    observed = replace(observed, facts=facts)
    entries = _known(addon, reached)
    if isinstance(entries, Unreachable):
        return replace(observed, reach=entries)
    return replace(
        observed,
        known=entries,
        bound=_bound(reached, observed),
        control_plane=clients.look_up(contract.control_plane_ref(cluster), key_of(cluster).namespace),
        infrastructure=clients.look_up(contract.infrastructure_ref(cluster), key_of(cluster).namespace),
    )


# -- what the objects say ----------------------------------------------------------------------------------------


def applied(addon: Object, cluster: Object) -> bool:
    """True once the addons of the Cluster's class are in the workload cluster and ready: nothing is left to do."""
    return _at_class(addon, cluster) and dig(addon, "status.ready") is True


def at_rest(addon: Object, cluster: Object) -> bool:
    """True where what is asked for is done: the addons of the class, or a rollback from it."""
    return history.holds(addon, cluster) if history.asked(addon, cluster) else applied(addon, cluster)


def awaits_readiness(addon: Object, cluster: Object) -> bool:
    """True while everything is applied and some of it is not ready."""
    condition = get_condition(dig(addon, "status.conditions", []), "ObjectsReady") or {}
    return _at_class(addon, cluster) and condition.get("status") == "False"


def _at_class(addon: Object, cluster: Object) -> bool:
    conditions = dig(addon, "status.conditions", [])
    return bool(
        dig(addon, "spec.clusterStack") == contract.class_name(cluster)
        and not dig(addon, "spec.hook")
        and is_true(conditions, "HelmChartApplied")
        and is_true(conditions, "ClusterReady")
    )


def is_anothers(addon: Object, cluster: Object) -> bool:
    """True for the addon of a Cluster that had this name before."""
    uid = dig(addon, "spec.clusterRef.uid")
    return bool(uid) and uid != cluster["metadata"]["uid"]


def _may_differ(addon: Object, policy: Policy) -> bool:
    """Whether another look at a settled cluster can find anything: drift, or a newer Kubernetes than charts know."""
    return policy.drift != "ignore" or bool(dig(addon, "status.kubernetesVersion"))


def target(observed: Observed) -> Target:
    """What the cluster is to be brought to. Needs the cluster, and assets and facts unless it is a rollback."""
    addon, cluster, assets = observed.addon or {}, observed.cluster or {}, observed.assets
    class_name, uid = contract.class_name(cluster) or "", cluster["metadata"]["uid"]
    if observed.rollback is not None:
        return Target(observed.rollback.class_name, observed.rollback.version, hook="rollback", cluster_uid=uid)
    assert isinstance(assets, Assets)
    version = str(assets.release.metadata.cluster_addon)
    told = observed.facts.version if observed.facts and observed.facts.api_versions else ""
    if assets.stages is None:
        return Target(class_name, version, told=told, cluster_uid=uid)
    return Target.in_stages(addon, class_name, version, told, uid)


def progress(observed: Observed) -> Progress:
    """How far the way there is gone; a release without stages has none."""
    addon, assets = observed.addon or {}, observed.assets
    goal = target(observed)
    listed = assets.stages.of(goal.hook) if isinstance(assets, Assets) and assets.stages else ()
    return Progress.of(listed, dig(addon, "status.stages"), resumed=dig(addon, "status.digest") == goal.digest)


def values_context(observed: Observed) -> dict[str, Any]:
    """What a values template sees: `.Cluster` always, the other two where the Cluster refers to them."""
    context: dict[str, Any] = {"Cluster": observed.cluster}
    if observed.control_plane.object is not None:
        context["ControlPlane"] = observed.control_plane.object
    if observed.infrastructure.object is not None:
        context["InfraCluster"] = observed.infrastructure.object
    return context


# -- reading -----------------------------------------------------------------------------------------------------


def _facts(reached: Reached, assets: Assets) -> Facts | Unreachable:
    """The live cluster's for charts that ask; any other is rendered without a request for them."""
    if not asks(assets):
        return Facts(assets.release.metadata.kubernetes)
    version = _version(reached)
    if isinstance(version, Unreachable):
        return version
    served = {name for api_version, kind in reached.served for name in (api_version, f"{api_version}/{kind}")}
    return Facts(version, tuple(sorted(served)))


def _version(reached: Reached) -> str | Unreachable:
    try:
        return str(reached.workload.client.request("GET", "/version", subject="version")["gitVersion"])
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell its version: {error}")


def _assets(clients: Clients, release: ReleaseName, cluster: Object) -> Assets | MissingAssets:
    since = cluster["metadata"]["resourceVersion"]
    origin = of_release(clients, contract.class_namespace(cluster), release, since=since)
    return load(clients.releases.within(origin.scope), release.tag)


def _known(addon: Object, reached: Reached) -> Sequence[Entry] | Unreachable:
    """The inventory; of addons that another program applied in stages, and so forgot, what carries our label."""
    entries = inventory.load(dig(addon, "status.resources"))
    if entries or dig(addon, "status.digest") or not dig(addon, "spec.clusterStack"):
        return entries
    try:
        return labelled(reached.workload, reached.served.values())
    except ApiError as error:
        return Unreachable(f"the workload API server does not tell what it has of ours: {error}")


def _bound(reached: Reached, observed: Observed) -> Mapping[str, Object | None] | Unreachable:
    current = progress(observed).current
    condition = current.condition if current else None
    found: dict[str, Object | None] = {}
    try:
        for one in condition.objects if condition else ():
            resource = reached.workload.discovery.resource(one.api_version, one.kind)
            key = Key(one.namespace if resource and resource.namespaced else "", one.name)
            found[one.key] = reached.workload.client.find(resource, key) if resource else None
    except ApiError as error:
        return Unreachable(f"the workload API server does not answer about a stage's condition: {error}")
    return found
