"""The rollout of a HelmChartProxy over its Clusters: who has which version, what waits and why, what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.conditions import READY, get_condition
from shared.api.resources import HELM_CHART_PROXY
from shared.clients import Clients
from shared.helm_proxies import inputs, selection
from shared.helm_proxies.dependencies import is_ready
from shared.helm_proxies.plan import Plan, plan
from shared.kube import Client, Key, NotFound, Object, deleting, dig, key_of
from shared.kube.dry_run import DryRunClient
from shared.rollouts import Rollout, assess, forecast

from .failure import Failure
from .text import plain


@dataclass(frozen=True)
class Member:
    """A Cluster of a rollout.

    Attributes:
        partition: The name of its partition.
        version: The version of the chart that it has; empty without a release.
        up_to_date: Whether its HelmReleaseProxy has the wanted spec.
        ready: Whether its HelmReleaseProxy is ready.
        change: What has to be done with the HelmReleaseProxy: create, patch or reinstall; empty if nothing.
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
    """The state and the future of the rollout of a HelmChartProxy.

    Attributes:
        version: The wanted version of the chart; empty for the newest.
        paused: Why the rollout is paused; empty if it is not.
        members: The Clusters, in the order of the partitions.
        removed: The names of the Clusters that lose the chart at once.
        steps: The names of the Clusters that change together, step after step, if all become ready.
        problems: What is wrong with the strategy.
    """

    chart: Key
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
            "name": self.chart.name,
            "namespace": self.chart.namespace,
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


def read_rollout(management: Client, key: Key) -> RolloutReport:
    """Plans a HelmChartProxy as `helm_chart_proxy` does, without writing.

    Raises `Failure` if the HelmChartProxy does not exist, is being deleted or has an invalid selector, or `ApiError`.
    """
    clients = Clients(DryRunClient(management))
    proxy = _find(clients.management, key)
    if deleting(proxy):
        raise Failure(f"HelmChartProxy {key} is being deleted: its releases are deleted in all Clusters at once")
    observed = inputs.read(clients, proxy)
    if observed.failure:
        raise Failure(f"HelmChartProxy {key}: {observed.failure}")
    planned = plan(proxy, observed)
    strategy = dig(proxy, "spec.rolloutStrategy", {})
    state = assess(strategy, planned.targets)
    paused = "rolloutStrategy.paused is true" if strategy.get("paused") else ""
    if PAUSED_ANNOTATION in dig(proxy, "metadata.annotations", {}):
        paused = f"the annotation {PAUSED_ANNOTATION} pauses the HelmChartProxy"
    return RolloutReport(
        key,
        str(dig(proxy, "spec.version") or ""),
        paused,
        _members(planned, state, selection.by_cluster(observed.releases), paused),
        tuple(write.cluster for write in planned.writes if write.kind == "delete"),
        tuple(forecast(strategy, planned.targets)),
        state.problems,
    )


def set_paused(management: Client, key: Key, *, paused: bool) -> None:
    """Pauses or resumes a rollout.

    Raises `Failure` if the HelmChartProxy does not exist or its CRD lacks the field, or `ApiError`.
    """
    wanted = True if paused else None
    stored = management.patch(
        HELM_CHART_PROXY, key_of(_find(management, key)), {"spec": {"rolloutStrategy": {"paused": wanted}}}
    )
    if dig(stored, "spec.rolloutStrategy.paused") != wanted:
        raise Failure(
            "the CRD of HelmChartProxy has no field rolloutStrategy.paused: `capi-functions doctor` names outdated CRDs"
        )


def _find(management: Client, key: Key) -> Object:
    try:
        return management.get(HELM_CHART_PROXY, key)
    except NotFound as error:
        hint = "`capi-functions get charts -A` lists all"
        raise Failure(f"HelmChartProxy {key.name} does not exist in the namespace {key.namespace}; {hint}") from error


def _members(planned: Plan, state: Rollout, releases: Mapping[str, list[Object]], paused: str) -> tuple[Member, ...]:
    up_to_date = {target.name: target.up_to_date for target in planned.targets}
    members = []
    for partition in state.partitions:
        for name in partition.members:
            release = next(iter(releases.get(name, [])), None)
            next_ = _unready(release) if up_to_date[name] else paused or "is changed next"
            reason = state.waiting.get(name) or next_
            members.append(
                Member(
                    name,
                    partition.name,
                    str(dig(release, "status.chartVersion") or dig(release, "spec.version") or ""),
                    up_to_date[name],
                    release is not None and is_ready(release),
                    planned.changes.get(name, ""),
                    plain(reason),
                )
            )
    return tuple(members)


def _unready(release: Object | None) -> str:
    """Returns why a release is not ready; empty if it is, or is kept as it is."""
    if release is None or is_ready(release):
        return ""
    ready = get_condition(dig(release, "status.conditions"), READY) or {}
    if ready.get("status") == "True":
        return "its last change is not reconciled yet"
    return ": ".join(filter(None, (str(ready.get(part) or "") for part in ("reason", "message")))) or "not reconciled"
