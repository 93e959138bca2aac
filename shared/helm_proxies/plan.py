"""Plans which HelmReleaseProxies of one HelmChartProxy are created, changed or deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.kube import Object, deleting, dig, key_of
from shared.rollouts import Rollout, State, Target, assess

from . import construction, selection
from .dependencies import has_failed, is_ready
from .inputs import Failure, Observed
from .writes import Kind, Write

CREATION_FAILED = "HelmReleaseProxyCreationFailed"
DELETION_FAILED = "HelmReleaseProxyDeletionFailed"
REINSTALLING = "HelmReleaseProxyReinstalling"
PARSING_FAILED = "ValueParsingFailed"


@dataclass(frozen=True)
class Problem:
    """The reason why the release of a Cluster is not as the spec wants it."""

    reason: str
    message: str
    temporary: bool = False
    """Whether no event shows the end of the problem."""


@dataclass(frozen=True)
class Plan:
    """The writes and the problems of the Clusters for which nothing is written."""

    writes: tuple[Write, ...] = ()
    problems: tuple[Problem, ...] = ()
    changes: Mapping[str, Kind] = field(default_factory=dict)
    """The kind of the write by the name of each Cluster that has to be changed, now or later."""
    targets: tuple[Target, ...] = ()
    """The Clusters that take part in a rollout. Clusters that are paused or being deleted do not."""
    rollout: Rollout | None = None
    """None without a strategy and dependencies: all Clusters are changed at once."""


def plan(proxy: Object, observed: Observed, now: datetime) -> Plan:
    """Returns the plan. Each Cluster is planned by itself, so that a Cluster with a problem delays no other Cluster."""
    releases = selection.by_cluster(observed.releases)
    steps = [_step(proxy, cluster, releases.get(key_of(cluster).name, []), observed) for cluster in observed.clusters]
    writes = [step for step in steps if isinstance(step, Write)]
    changes = {write.cluster: write.kind for write in writes}
    targets = _targets(observed, releases, steps)
    strategy, ordered = dig(proxy, "spec.rolloutStrategy"), dig(proxy, "spec.dependsOn")
    rollout = assess(strategy or {}, targets, now) if strategy or ordered else None
    if rollout is not None:
        writes = [write for write in writes if write.cluster in rollout.allowed]
    if not construction.installs_once(proxy):
        left = selection.orphans(observed.releases, observed.clusters)
        writes += [
            Write("delete", selection.cluster_of(release), release)
            for release in left
            if selection.cluster_of(release) not in observed.paused
        ]
    problems = tuple(step for step in steps if isinstance(step, Problem))
    return Plan(tuple(writes), problems, changes, targets, rollout)


def _targets(
    observed: Observed, releases: Mapping[str, list[Object]], steps: Sequence[Write | Problem | None]
) -> tuple[Target, ...]:
    targets = []
    for cluster, step in zip(observed.clusters, steps, strict=True):
        if _is_left_alone(cluster):
            continue
        name = key_of(cluster).name
        waits_for = step.message if isinstance(step, Problem) else observed.dependencies.missing(name)
        labels = dig(cluster, "metadata.labels", {})
        own = releases.get(name, [])
        failed = any(has_failed(release) for release in own)
        targets.append(Target(name, labels, step is None, _state(own), waits_for, failed))
    return tuple(targets)


def _state(releases: Sequence[Object]) -> State:
    if not releases:
        return "absent"
    return "available" if all(is_ready(release) for release in releases) else "unavailable"


def _is_left_alone(cluster: Object) -> bool:
    return deleting(cluster) or cluster_api.is_paused(cluster)


def removal(observed: Observed) -> Plan:
    """Returns the plan for a HelmChartProxy that is being deleted: all its releases are deleted."""
    left = [release for release in observed.releases if not deleting(release)]
    return Plan(tuple(Write("delete", selection.cluster_of(release), release) for release in left))


def _step(proxy: Object, cluster: Object, releases: list[Object], observed: Observed) -> Write | Problem | None:
    name = key_of(cluster).name
    if _is_left_alone(cluster):
        return None
    if len(releases) > 1:
        names = " and ".join(sorted(key_of(release).name for release in releases)[:2])
        return Problem(CREATION_FAILED, f"{name} has several HelmReleaseProxies, {names}: delete all but one")
    existing = releases[0] if releases else None
    if existing is not None and deleting(existing):
        return Problem(
            REINSTALLING,
            f"the HelmReleaseProxy for {name} is being deleted; a new HelmReleaseProxy will install the chart again",
        )
    if existing is not None and construction.is_kept_as_installed(proxy, existing):
        return None
    if existing is not None and construction.must_reinstall(proxy, existing):
        return Write("reinstall", name, existing)
    rendered = observed.rendered.get(name) or Failure(f"{name}: the templates are not rendered", temporary=True)
    if isinstance(rendered, Failure):
        return Problem(PARSING_FAILED, rendered.message, rendered.temporary)
    change = construction.change(proxy, cluster, existing, rendered)
    match change.kind:
        case "create":
            return Write("create", name, change.body)
        case "patch" if existing is not None:
            return Write("patch", name, existing, change.body)
    return None
