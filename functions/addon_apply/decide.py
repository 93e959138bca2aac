"""What follows for one ClusterAddon: guards in the order of what must be there, then the rollout.

Every wait has a condition that says what is waited for, and an interval. Conditions, reasons and severities are those
that users of cluster stacks know.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import charts
from shared.api import cluster as contract
from shared.api.conditions import get_condition, remove_condition, set_condition, summary
from shared.api.resources import CLUSTER_ADDON
from shared.clients import Clients, Found
from shared.effects import Effect, Patch, RemoveFinalizer, Results, add_finalizer
from shared.event import own_event
from shared.kube import Object, deleting, dig
from shared.runtime import Decision, Notice
from shared.workload import inventory
from shared.workload.desired import UnknownKinds, defined_by, desired
from shared.workload.reach import Reached, Unreachable
from shared.workload.rollout import Incomplete, Outcome, Rollout

from .observe import Assets, Facts, MissingAssets, Observed, applied, values_context

FINALIZER = "clusteraddon.clusterstack.x-k8s.io"
STAGE_ANNOTATION = "ClusterAddonStage"
DEFAULT_NAMESPACE = "kube-system"
RELEASE_NAME = "cluster-addon"

# Seconds until the next look.
CLUSTER_RETRY = 10.0
ASSETS_RETRY = 10.0
ASSETS_INTERVAL = timedelta(seconds=ASSETS_RETRY - 1)
PARTIAL_RETRY = 20.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


@dataclass(frozen=True)
class Refresh:
    """Has the workload cluster's kinds asked for again: one that was unknown may have come."""

    reached: Reached

    def execute(self, _clients: Clients) -> None:
        self.reached.workload.discovery.forget()


@dataclass
class Verdict:
    """The decision while it is being made: the addon's conditions, and what else its status is to say."""

    addon: Object
    now: datetime
    conditions: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conditions = list(dig(self.addon, "status.conditions", []))

    def true(self, type_: str) -> None:
        self.conditions = set_condition(self.conditions, type_, "True", "", "", now=self.now)

    def false(self, type_: str, reason: str, message: str, severity: str = "Info") -> None:
        self.conditions = set_condition(
            self.conditions, type_, "False", reason, message, now=self.now, severity=severity
        )

    def drop(self, type_: str) -> None:
        self.conditions = remove_condition(self.conditions, type_)

    def failed(self, type_: str, reason: str) -> bool:
        """True where the addon says so already: the event about it was sent then."""
        before = get_condition(dig(self.addon, "status.conditions", []), type_)
        return bool(before and before.get("status") == "False" and before.get("reason") == reason)

    def status(self, *, ready: bool, **fields: object) -> Object:
        conditions = summary(self.conditions, now=self.now)
        return {"conditions": conditions, "ready": ready, **fields}


def decide(observed: Observed, now: datetime) -> Decision:
    addon, cluster = observed.addon, observed.cluster
    if addon is None:
        return Decision(message="the ClusterAddon is gone")
    if deleting(addon) or cluster is None or deleting(cluster):
        return _let_go(addon)
    verdict = Verdict(addon, now)
    if contract.is_paused(cluster):
        verdict.false("ClusterReady", "Paused", "The Cluster is paused: its addons are left as they are")
        return Decision(status=verdict.status(ready=dig(addon, "status.ready") is True), message="paused")
    if observed.release is None:
        name = contract.class_name(cluster)
        verdict.false("ClusterStackReleaseDownloaded", "NoClusterStack", f"class {name!r} names no cluster stack")
        return Decision(status=verdict.status(ready=False))
    if applied(addon, cluster):
        return Decision(effects=_finalizer(addon), message="applied")
    if not isinstance(observed.reach, Reached):
        return _not_reached(verdict, observed.reach)
    verdict.true("ClusterReady")
    if not isinstance(observed.assets, Assets):
        return _not_downloaded(verdict, observed.assets)
    verdict.true("ClusterStackReleaseDownloaded")
    return _roll_out(verdict, observed, observed.reach, observed.assets)


# -- guards ----------------------------------------------------------------------------------------------------


def _let_go(addon: Object) -> Decision:
    """Without its Cluster an addon has nothing to do: the objects go with the workload cluster."""
    if not deleting(addon) or FINALIZER not in dig(addon, "metadata.finalizers", []):
        return Decision(message="the Cluster is going away")
    return Decision(effects=(RemoveFinalizer(CLUSTER_ADDON, addon, FINALIZER),), message="let go")


def _not_reached(verdict: Verdict, reach: Unreachable | None) -> Decision:
    problem = reach or Unreachable("the workload cluster was not looked at")
    verdict.false("ClusterReady", "ControlPlaneNotReady", problem.message, problem.severity)
    return Decision(
        effects=_finalizer(verdict.addon),
        status=verdict.status(ready=False),
        requeue=CLUSTER_RETRY,
        message=problem.message,
    )


def _not_downloaded(verdict: Verdict, missing: MissingAssets | None) -> Decision:
    tag = missing.tag if missing else "-"
    notices: tuple[Notice, ...] = ()
    if missing and missing.failure:
        reason, message, severity = "IssueWithReleaseAssets", missing.failure, "Error"
        if not verdict.failed("ClusterStackReleaseDownloaded", reason):
            notices = (Notice(reason, message, "Warning"),)
    else:
        reason, severity = "ReleaseAssetsNotDownloadedYet", "Info"
        message = f"release {tag} is not in storage yet; its fetch has been asked for"
    verdict.false("ClusterStackReleaseDownloaded", reason, message, severity)
    wanted = None
    if missing is None or missing.failed_at is None or verdict.now - missing.failed_at >= ASSETS_INTERVAL:
        # After a failure once each interval, or question and answer would chase each other.
        wanted = own_event(
            "release.wanted", source="/addon_apply", subject=tag, about=verdict.addon, data={"release": tag}
        )
    return Decision(
        effects=_finalizer(verdict.addon),
        status=verdict.status(ready=False),
        notices=notices,
        requeue=ASSETS_RETRY,
        reply=wanted,
        message=message,
    )


def _finalizer(addon: Object) -> tuple[Effect, ...]:
    if FINALIZER in dig(addon, "metadata.finalizers", []):
        return ()
    return (add_finalizer(CLUSTER_ADDON, addon, FINALIZER),)


# -- rollout ---------------------------------------------------------------------------------------------------


def _roll_out(verdict: Verdict, observed: Observed, reach: Reached, assets: Assets) -> Decision:
    addon = verdict.addon
    facts = observed.facts or Facts(assets.release.metadata.kubernetes)
    version = str(assets.release.metadata.cluster_addon)
    unchanged = dig(addon, "spec.version") == version and dig(addon, "status.ready") is True
    if unchanged:
        # The addons' own version is what decides: a new release with the same addons costs the cluster nothing.
        verdict.true("HelmChartApplied")
        advance = _advance(observed, version)
        return Decision((*_finalizer(addon), advance), verdict.status(ready=True), message="addons unchanged")
    if assets.release.stages is not None:
        message = f"{assets.release.stages}: releases whose addons come in stages cannot be applied yet"
        verdict.false("ClusterAddonConfigValidated", "ParsingClusterAddonConfigFailed", message, "Error")
        return Decision(_finalizer(addon), verdict.status(ready=False), requeue=BROKEN_RETRY, message=message)
    verdict.drop("ClusterAddonConfigValidated")
    broken = _unreadable(observed.control_plane) or _unreadable(observed.infrastructure)
    if broken:
        verdict.false("HelmChartTemplated", "TemplateNewClusterStackFailed", broken, "Error")
        return Decision(status=verdict.status(ready=False), requeue=CLUSTER_RETRY, message=broken)
    try:
        rendered = charts.render_addon(
            assets.chart,
            assets.values_template,
            values_context(observed),
            chart_name=assets.release.addon_chart,
            kube_version=facts.version,
            api_versions=facts.api_versions,
        )
        objects = desired(rendered, reach.served, default_namespace=DEFAULT_NAMESPACE)
    except charts.ChartError as error:
        return _not_rendered(verdict, observed, str(error))
    except UnknownKinds as error:
        verdict.false("HelmChartApplied", "FailedToApplyObjects", str(error), "Error")
        status = verdict.status(ready=False)
        return Decision((*_finalizer(addon), Refresh(reach)), status, requeue=PARTIAL_RETRY, message=str(error))
    verdict.drop("HelmChartTemplated")
    name = observed.release.tag if observed.release else ""
    digest = inventory.digest(objects, name, version)
    known = inventory.load(dig(addon, "status.resources"))
    plan = inventory.plan(objects, known, resumed=dig(addon, "status.digest") == digest)
    intent = [entry.dump() for entry in inventory.merge_intent(plan, known)]
    verdict.false("HelmChartApplied", "ObjectsApplyingOngoing", f"applying {len(plan.apply)} objects of {name}")
    begin = Patch(
        CLUSTER_ADDON,
        addon,
        {"status": verdict.status(ready=False, resources=intent, digest=digest, kubernetesVersion=facts.version)},
        subresource="status",
    )
    resources = {**reach.served, **defined_by(objects)}
    rollout = Rollout(reach.workload, plan, resources)
    return Decision((*_finalizer(addon), begin, rollout, _advance(observed, version)))


def _unreadable(found: Found) -> str:
    """A referenced object that is not there would render as nothing, and prune what depends on it."""
    if found.state in ("absent", "failed"):
        return found.error or f"{found.kind} that the Cluster refers to does not exist"
    return ""


def _not_rendered(verdict: Verdict, observed: Observed, message: str) -> Decision:
    """Nothing was applied and nothing is pruned: the last good state stays."""
    reason = "TemplateNewClusterStackFailed"
    notices: tuple[Notice, ...] = ()
    if not verdict.failed("HelmChartTemplated", reason):
        notices = (Notice(reason, message, "Warning"),)
    verdict.false("HelmChartTemplated", reason, message, "Error")
    return Decision(
        effects=_finalizer(verdict.addon),
        status=verdict.status(ready=False),
        notices=notices,
        requeue=BROKEN_RETRY,
        message=f"{observed.release}: {message}",
    )


def _advance(observed: Observed, version: str) -> Patch:
    """Records what is applied now, where users of cluster stacks look for it."""
    addon, cluster = observed.addon or {}, observed.cluster or {}
    stage = "upgraded" if dig(addon, "spec.clusterStack") else "created"
    return Patch(
        CLUSTER_ADDON,
        addon,
        {
            "metadata": {"annotations": {STAGE_ANNOTATION: stage}},
            "spec": {"clusterStack": contract.class_name(cluster), "version": version, "hook": ""},
        },
    )


# -- report ----------------------------------------------------------------------------------------------------


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """The status after a rollout; any other decision stands as it was made."""
    rollout = next((effect for effect in decision.effects if isinstance(effect, Rollout)), None)
    if rollout is None or observed.addon is None:
        return decision
    verdict = Verdict(observed.addon, now)
    verdict.true("ClusterReady")
    verdict.true("ClusterStackReleaseDownloaded")
    verdict.drop("HelmChartTemplated")
    outcome = next((value for value in results.values if isinstance(value, Outcome)), None)
    if outcome is not None:
        return _applied(decision, verdict, observed, outcome)
    if isinstance(results.error, Incomplete):
        incomplete, results.error = results.error, None
        return _incomplete(decision, verdict, incomplete)
    return decision


def _applied(decision: Decision, verdict: Verdict, observed: Observed, outcome: Outcome) -> Decision:
    verdict.true("HelmChartApplied")
    message = f"{observed.release}: {outcome.applied} objects applied, {len(outcome.pruned)} pruned"
    notices = [Notice("AddonsApplied", message)]
    if outcome.kept:
        left = ", ".join(str(entry) for entry in outcome.kept[:5])
        notices.append(Notice("ObjectsKept", f"not ours or marked to be kept, left in the cluster: {left}"))
    return replace(
        decision,
        status=verdict.status(ready=True, resources=[entry.dump() for entry in outcome.entries]),
        notices=tuple(notices),
        message=message,
    )


def _incomplete(decision: Decision, verdict: Verdict, incomplete: Incomplete) -> Decision:
    message = str(incomplete)
    notices: tuple[Notice, ...] = ()
    if not verdict.failed("HelmChartApplied", "FailedToApplyObjects"):
        notices = (Notice("FailedToApplyObjects", message, "Warning"),)
    verdict.false("HelmChartApplied", "FailedToApplyObjects", message)
    return replace(
        decision,
        status=verdict.status(ready=False, resources=[entry.dump() for entry in incomplete.outcome.entries]),
        notices=notices,
        requeue=CLUSTER_RETRY if incomplete.unavailable else PARTIAL_RETRY,
        message=message,
    )
