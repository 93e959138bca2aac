"""The rollout of a chart or a class over Clusters: who has which version, what waits and why, what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shared import cluster_rollouts
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import READY, get_condition
from shared.api.resources import CLUSTER_ROLLOUT, HELM_CHART_PROXY
from shared.clients import Clients
from shared.helm_proxies import inputs, selection
from shared.helm_proxies.dependencies import is_ready
from shared.helm_proxies.plan import plan
from shared.kube import Client, Key, NotFound, Object, Resource, deleting, dig, key_of
from shared.kube.dry_run import DryRunClient
from shared.rollouts import Rollout, Target, assess, forecast

from .failure import Failure
from .text import plain

_NEXT = "is changed next"
_LISTED = {HELM_CHART_PROXY: "charts", CLUSTER_ROLLOUT: "rollouts"}
"""The kinds as `get` names them."""


@dataclass(frozen=True)
class Member:
    """A Cluster of a rollout.

    Attributes:
        partition: The name of its partition.
        version: The version of the chart that it has, or its class and Kubernetes version; empty without a release.
        up_to_date: Whether its HelmReleaseProxy, or its topology, has the wanted spec.
        ready: Whether its HelmReleaseProxy, or the Cluster itself, is ready.
        change: What has to be done with its HelmReleaseProxy, create, patch or reinstall, or with the Cluster, patch;
            empty if nothing.
        reason: Why it is not changed now, or is not ready; empty if it is done.
    """

    name: str
    partition: str
    version: str
    up_to_date: bool
    ready: bool
    change: str
    reason: str


@dataclass(frozen=True)
class RolloutReport:
    """The state and the future of a rollout.

    Attributes:
        kind: HelmChartProxy or ClusterRollout.
        version: The wanted version of the chart, or class and Kubernetes version; empty for the newest.
        paused: Why the rollout is paused; empty if it is not.
        members: The Clusters, in the order of the partitions.
        removed: The names of the Clusters that lose the chart at once.
        steps: The names of the Clusters that change together, step after step, if all become ready.
        problems: What is wrong with the strategy, and which Clusters do not fit.
    """

    kind: str
    key: Key
    version: str
    paused: str
    members: tuple[Member, ...]
    removed: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]

    @property
    def stuck(self) -> tuple[Member, ...]:
        """The Clusters that have to be changed and are in no step."""
        planned = {name for step in self.steps for name in step}
        return tuple(one for one in self.members if not one.up_to_date and one.name not in planned)

    def dump(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        return {
            "kind": self.kind,
            "name": self.key.name,
            "namespace": self.key.namespace,
            "version": self.version,
            "paused": self.paused,
            "problems": list(self.problems),
            "clusters": [
                {"upToDate" if name == "up_to_date" else name: value for name, value in asdict(one).items()}
                for one in self.members
            ],
            "removed": list(self.removed),
            "steps": [list(step) for step in self.steps],
        }


def parse_subject(text: str) -> tuple[Resource, str]:
    """Returns kind and name of `NAME`, which is a HelmChartProxy, or of `KIND/NAME`, as kubectl takes it.

    Raises `Failure` for another kind.
    """
    kind, _, name = text.rpartition("/")
    for resource in _READ:
        if kind.lower() in ("", resource.kind.lower(), resource.plural):
            return resource, name
    kinds = " and ".join(f"{resource.kind.lower()}/NAME" for resource in _READ)
    raise Failure(f"{kind} has no rollout: {kinds} have one")


def read_rollout(management: Client, resource: Resource, key: Key) -> RolloutReport:
    """Plans a rollout as its function does, without writing.

    Raises `Failure` if the object does not exist, is being deleted or has an invalid selector, or `ApiError`.
    """
    clients = Clients(DryRunClient(management))
    return _READ[resource](clients, _find(clients.management, resource, key))


def _read_chart(clients: Clients, proxy: Object) -> RolloutReport:
    if deleting(proxy):
        raise Failure(
            f"HelmChartProxy {key_of(proxy)} is being deleted, so its releases are deleted in all Clusters at once"
        )
    observed = inputs.read(clients, proxy)
    if observed.failure:
        raise Failure(f"HelmChartProxy {key_of(proxy)}: {observed.failure}")
    now = datetime.now(UTC)
    planned = plan(proxy, observed, now)
    releases = selection.by_cluster(observed.releases)

    def present(target: Target) -> _Present:
        release = next(iter(releases.get(target.name, [])), None)
        version = str(dig(release, "status.chartVersion") or dig(release, "spec.version") or "")
        change = planned.changes.get(target.name, "")
        return _Present(version, release is not None and is_ready(release), change, _unready(release))

    state = assess(dig(proxy, "spec.rolloutStrategy", {}), planned.targets, now)
    report = _report(proxy, planned.targets, state, present, now)
    removed = tuple(write.cluster for write in planned.writes if write.kind == "delete")
    return replace(report, version=str(dig(proxy, "spec.version") or ""), removed=removed)


def _read_class(clients: Clients, rollout: Object) -> RolloutReport:
    if deleting(rollout):
        raise Failure(f"ClusterRollout {key_of(rollout)} is being deleted, so it changes no Cluster")
    observed = cluster_rollouts.read(clients, rollout)
    if observed.failure:
        raise Failure(f"ClusterRollout {key_of(rollout)}: {observed.failure}")
    now = datetime.now(UTC)
    planned = cluster_rollouts.plan(rollout, observed, now)
    clusters = {key_of(cluster).name: cluster for cluster in observed.clusters}

    def present(target: Target) -> _Present:
        change = "" if target.up_to_date else "patch"
        version = cluster_rollouts.present(clusters[target.name])
        return _Present(version, target.state == "available", change, planned.unready.get(target.name, ""))

    report = _report(rollout, planned.targets, planned.rollout, present, now)
    problems = (*report.problems, *planned.complaints)
    return replace(report, version=cluster_rollouts.wanted(rollout), problems=problems)


class _Present(NamedTuple):
    """The present state of a Cluster; the fields are as in `Member`."""

    version: str
    ready: bool
    change: str
    unready: str


def _report(
    obj: Object, targets: Sequence[Target], state: Rollout, present: Callable[[Target], _Present], now: datetime
) -> RolloutReport:
    """Returns the report of a rollout, without the wanted version and removed Clusters."""
    paused, by_name = _paused(obj), {target.name: target for target in targets}
    members = []
    for partition in state.partitions:
        for target in map(by_name.__getitem__, partition.members):
            version, ready, change, unready = present(target)
            reason = state.waiting.get(target.name) or (unready if target.up_to_date else paused or _NEXT)
            members.append(
                Member(target.name, partition.name, version, target.up_to_date, ready, change, plain(reason))
            )
    steps = tuple(forecast(dig(obj, "spec.rolloutStrategy", {}), targets, now))
    problems = (*state.problems, *state.wrong_windows)
    return RolloutReport(obj["kind"], key_of(obj), "", paused, tuple(members), (), steps, problems)


_READ = {HELM_CHART_PROXY: _read_chart, CLUSTER_ROLLOUT: _read_class}
"""The kinds that have a rollout, and the reading of their rollouts."""


def set_paused(management: Client, resource: Resource, key: Key, *, paused: bool) -> None:
    """Pauses or resumes a rollout.

    Raises `Failure` if the object does not exist or its CRD lacks the field, or `ApiError`.
    """
    wanted = True if paused else None
    _find(management, resource, key)
    stored = management.patch(resource, key, {"spec": {"rolloutStrategy": {"paused": wanted}}})
    if dig(stored, "spec.rolloutStrategy.paused") != wanted:
        raise Failure(
            f"the CRD of {resource.kind} has no field rolloutStrategy.paused: replace it with `kubectl apply "
            f"--server-side --force-conflicts -f infra/manifests/crds/{resource.group}_{resource.plural}.yaml`"
        )


def _paused(obj: Object) -> str:
    """Returns why the rollout is paused; empty if it is not."""
    if PAUSED_ANNOTATION in dig(obj, "metadata.annotations", {}):
        return f"the annotation {PAUSED_ANNOTATION} pauses the {obj['kind']}"
    return "rolloutStrategy.paused is true" if dig(obj, "spec.rolloutStrategy.paused") is True else ""


def _find(management: Client, resource: Resource, key: Key) -> Object:
    try:
        return management.get(resource, key)
    except NotFound as error:
        hint = f"`capi-functions get {_LISTED[resource]} -A` lists all"
        message = f"{resource.kind} {key.name} does not exist in the namespace {key.namespace}; {hint}"
        raise Failure(message) from error


def _unready(release: Object | None) -> str:
    """Returns why a release is not ready; empty if it is, or is kept as it is."""
    if release is None or is_ready(release):
        return ""
    ready = get_condition(dig(release, "status.conditions"), READY) or {}
    if ready.get("status") == "True":
        return "its last change is not reconciled yet"
    return ": ".join(filter(None, (str(ready.get(part) or "") for part in ("reason", "message")))) or "not reconciled"
