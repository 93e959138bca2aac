"""The rollout of a ClusterClass over Clusters: the inputs of a ClusterRollout, and which Clusters it changes now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from shared import semver, watch_filter
from shared.api import cluster as cluster_api
from shared.api.cluster import ROLLING_OUT, TOPOLOGY_RECONCILED
from shared.api.conditions import READY, abridged, get_condition, is_true
from shared.api.names import addon_of
from shared.api.readiness import text, topology_failed, why_not_ready
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_CLASS, CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.effects import Patch
from shared.kube import ApiError, Conflict, Key, NotFound, Object, deleting, dig, key_of
from shared.kube.selectors import matcher, validated
from shared.releases.naming import ReleaseName
from shared.rollouts import Rollout, State, Target, assess

SETTLING: Final = timedelta(seconds=10)
"""How long a Cluster is unavailable after a change of its topology.

The controllers of its Machines see their new templates a moment after Cluster API reports the topology as reconciled,
and only then the condition `RollingOut` is True.
"""
_MOST_NAMES: Final = 3
"""Names of ClusterRollouts in the text about one Cluster, because a namespace can have thousands."""


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one ClusterRollout.

    Attributes:
        clusters: The selected Clusters, by name.
        addons: The ClusterAddons of the namespace.
        others: The other ClusterRollouts of the namespace, without those being deleted.
        missing: The namespaces of classes in which the wanted class does not exist.
        failure: Why the Clusters could not be selected.
    """

    rollout: Object | None
    clusters: tuple[Object, ...] = ()
    addons: Mapping[Key, Object] = field(default_factory=dict)
    others: tuple[Object, ...] = ()
    missing: frozenset[str] = frozenset()
    failure: str = ""


@dataclass(frozen=True)
class Plan:
    """The present work of a ClusterRollout, and the reasons of the rest.

    Attributes:
        moves: The patches of the Clusters that are changed now.
        targets: The Clusters that take part.
        rollout: The state of the rollout.
        unready: Why a Cluster is not ready, by its name.
        twice: The names of other ClusterRollouts that also select a Cluster, by the name of the Cluster.
        left: Why a Cluster takes no part, by its name; without Clusters that are paused or being deleted.
        settling: Whether a Cluster is unavailable only because its topology has just been changed.
    """

    moves: tuple[Patch, ...]
    targets: tuple[Target, ...]
    rollout: Rollout
    unready: Mapping[str, str]
    twice: Mapping[str, str]
    left: Mapping[str, str]
    settling: bool = False

    @property
    def done(self) -> bool:
        """Whether all Clusters that take part have the target and are ready."""
        return all(one.done for one in self.targets)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Which Clusters another ClusterRollout also selects, and which stay unchanged."""
        twice = [f"{name}: ClusterRollout {other} also selects it" for name, other in sorted(self.twice.items())]
        return (*twice, *(f"{name} stays unchanged, because {reason}" for name, reason in sorted(self.left.items())))


@dataclass(frozen=True)
class MoveClusters:
    """Executes all moves. A failure of one Cluster does not stop the others."""

    moves: tuple[Patch, ...]

    def execute(self, clients: Clients) -> dict[str, ApiError]:
        """Returns the failures by Cluster. A Cluster that has changed or gone meanwhile is checked again.

        Raises nothing for a single Cluster.
        """
        failures: dict[str, ApiError] = {}
        for move in self.moves:
            try:
                move.execute(clients)
            except (Conflict, NotFound):
                continue
            except ApiError as error:
                failures[key_of(move.obj).name] = error
        return failures


def read(clients: Clients, rollout: Object) -> Observed:
    """Reads the Clusters of a ClusterRollout and what decides about them. Raises `ApiError`."""
    namespace, management = key_of(rollout).namespace, clients.management
    try:
        selector = validated(dig(rollout, "spec.clusterSelector", {}))
    except ValueError as error:
        return Observed(rollout, failure=str(error))
    listed = [CLUSTER.upgraded(one) for one in management.list(CLUSTER, namespace, selector=selector)]
    clusters = tuple(sorted(filter(watch_filter.admits, listed), key=key_of))
    addons = {key_of(one): one for one in management.list(CLUSTER_ADDON, namespace)} if clusters else {}
    others = tuple(
        one
        for one in management.list(CLUSTER_ROLLOUT, namespace)
        if key_of(one) != key_of(rollout) and not deleting(one) and not cluster_api.is_paused(one)
    )
    outdated = [one for one in clusters if cluster_api.class_name(one) not in (None, _class(rollout))]
    namespaces = {cluster_api.class_namespace(one) for one in outdated}
    missing = {one for one in namespaces if _is_missing(management.find(CLUSTER_CLASS, Key(one, _class(rollout))))}
    return Observed(rollout, clusters, addons, others, frozenset(missing))


def plan(rollout: Object, observed: Observed, now: datetime) -> Plan:
    """Returns the plan. It moves no Cluster that another ClusterRollout selects, and none to an older release."""
    targets: list[Target] = []
    unready: dict[str, str] = {}
    twice: dict[str, str] = {}
    left: dict[str, str] = {}
    settling = False
    others = [(key_of(one).name, matcher(dig(one, "spec.clusterSelector", {}))) for one in observed.others]
    for cluster in observed.clusters:
        name = key_of(cluster).name
        if deleting(cluster) or cluster_api.is_paused(cluster):
            continue
        if reason := _obstacle(rollout, cluster):
            left[name] = reason
            continue
        labels = dig(cluster, "metadata.labels", {})
        rivals = abridged(sorted(other for other, selects in others if selects(labels)), _MOST_NAMES, ", ")
        if rivals:
            twice[name] = rivals
        addon = observed.addons.get(addon_of(cluster))
        problem = why_unready(cluster, addon)
        if not problem and _is_settling(cluster, now):
            problem, settling = "its topology has just been changed", True
        if problem:
            unready[name] = problem
        waits_for = f"ClusterRollout {rivals} also selects it" if rivals else _missing_class(rollout, observed, cluster)
        state: State = "unavailable" if problem else "available"
        failed = bool(problem) and has_failed(cluster, addon)
        targets.append(Target(name, labels, _is_moved(rollout, cluster), state, waits_for, failed))
    assessed = assess(dig(rollout, "spec.rolloutStrategy", {}), targets, now)
    moves = [move(rollout, one) for one in observed.clusters if key_of(one).name in assessed.allowed]
    return Plan(tuple(moves), tuple(targets), assessed, unready, twice, left, settling)


def move(rollout: Object, cluster: Object) -> Patch:
    """Returns the patch that gives a Cluster the target, in the shape in which it names its class."""
    name = _class(rollout)
    shape: Object = {"classRef": {"name": name}} if dig(cluster, "spec.topology.classRef") else {"class": name}
    if version := _version(rollout):
        shape["version"] = version
    return Patch(CLUSTER, cluster, {"spec": {"topology": shape}})


def why_unready(cluster: Object, addon: Object | None) -> str:
    """Returns why a Cluster, or the addons of its class, are not ready with its present spec; empty if they are."""
    if problem := why_not_ready(cluster):
        return problem
    release = ReleaseName.from_class_name(cluster_api.class_name(cluster) or "")
    if release is None:
        return ""
    if addon is None:
        return "it has no ClusterAddon yet"
    if ReleaseName.from_class_name(str(dig(addon, "spec.clusterStack") or "")) != release:
        return f"the addons of {release} are not applied yet"
    if not is_true(dig(addon, "status.conditions"), READY):
        return f"ClusterAddon: {text(get_condition(dig(addon, 'status.conditions'), READY) or {})}"
    return ""


def _is_settling(cluster: Object, now: datetime) -> bool:
    """Returns whether a controller of Machines, or of conditions without generation, may not know the topology yet."""
    found = cluster_api.conditions(cluster)
    lags = any(one.get("type") == ROLLING_OUT or "observedGeneration" not in one for one in found)
    changed = cluster_api.topology_changed_at(cluster)
    return lags and changed is not None and now - changed < SETTLING


def has_failed(cluster: Object, addon: Object | None) -> bool:
    """Returns whether the topology controller, or the ClusterAddon, reports a failure and not only progress."""
    topology = get_condition(cluster_api.conditions(cluster), TOPOLOGY_RECONCILED) or {}
    if topology.get("status") == "False":
        return topology_failed(cluster)
    ready = get_condition(dig(addon or {}, "status.conditions"), READY) or {}
    return ready.get("status") == "False" and ready.get("severity") in ("Error", "Warning")


def present(cluster: Object) -> str:
    """Returns class and Kubernetes version of a Cluster."""
    return " ".join(filter(None, (cluster_api.class_name(cluster), _text_at(cluster, "spec.topology.version"))))


def wanted(rollout: Object) -> str:
    """Returns class and Kubernetes version that a ClusterRollout gives to Clusters."""
    return " ".join(filter(None, (_class(rollout), _version(rollout))))


def _is_missing(cluster_class: Object | None) -> bool:
    return cluster_class is None or deleting(cluster_class)


def _missing_class(rollout: Object, observed: Observed, cluster: Object) -> str:
    namespace = cluster_api.class_namespace(cluster)
    missing = namespace in observed.missing and cluster_api.class_name(cluster) != _class(rollout)
    return f"ClusterClass {namespace}/{_class(rollout)} does not exist" if missing else ""


def _obstacle(rollout: Object, cluster: Object) -> str:
    """Returns why a Cluster without a class, or newer than the target, takes no part; empty for others."""
    name = cluster_api.class_name(cluster)
    if name is None:
        return "it has no class"
    if _is_older(_version(rollout), _text_at(cluster, "spec.topology.version")):
        return f"its Kubernetes version {dig(cluster, 'spec.topology.version')} is newer"
    if dig(rollout, "spec.allowDowngrade") is not True and _is_older_release(_class(rollout), name):
        return f"its class {name} is newer"
    return ""


def _is_moved(rollout: Object, cluster: Object) -> bool:
    version = _version(rollout)
    same = not version or _text_at(cluster, "spec.topology.version") == version
    return same and cluster_api.class_name(cluster) == _class(rollout)


def _is_older(version: str, than: str) -> bool:
    one, other = semver.try_parse(version), semver.try_parse(than)
    return one is not None and other is not None and one < other


def _is_older_release(name: str, than: str) -> bool:
    """Returns whether a class belongs to an older release of the same cluster stack. Channels have no order."""
    one, other = ReleaseName.from_class_name(name), ReleaseName.from_class_name(than)
    if one is None or other is None or (one.provider, one.name) != (other.provider, other.name):
        return False
    if one.kubernetes != other.kubernetes:
        return _minor(one) < _minor(other)
    return one.version.channel == other.version.channel and one.version < other.version


def _minor(release: ReleaseName) -> tuple[int, ...]:
    return tuple(int(part) for part in release.kubernetes.split("."))


def _class(rollout: Object) -> str:
    return _text_at(rollout, "spec.topology.classRef.name")


def _version(rollout: Object) -> str:
    return _text_at(rollout, "spec.topology.version")


def _text_at(obj: Mapping[str, Any], path: str) -> str:
    value = dig(obj, path)
    return value if isinstance(value, str) else ""
