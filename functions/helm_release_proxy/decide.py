"""Decides the next step of one HelmReleaseProxy: a wait for a missing prerequisite, an operation of Helm, or nothing.

Conditions and reasons are as in Cluster API Addon Provider Helm.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition
from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.connection import ConnectionFailed
from shared.effects import Effect, Patch, Results, ensure_finalizer, write_ahead
from shared.event import Event
from shared.helm_charts.store import MissingChart
from shared.helm_proxies.names import (
    HRP_FINALIZER,
    INSTALL_ONCE,
    INSTALLED,
    RELEASE_NAME_GENERATED,
    generated_name,
)
from shared.helm_proxies.release_record import DEPLOYED, FAILED, UNINSTALLED, UNINSTALLING
from shared.kube import deleting, dig
from shared.runtime import Decision

from .deletion import reconcile_deletion
from .findings import Adoption, GivenUp, LeftTo, Observed, Problem, Removal, Rival, UpToDate, Work
from .rollout import ReleaseIncomplete, RemoveRelease, Rolled, RollOutRelease
from .status import CLUSTER_AVAILABLE, RELEASE_READY, ReleaseStatusBuilder
from .triggers import is_installed_once

SOURCE: Final = "/helm_release_proxy"
CLUSTER_RETRY = 10.0
CHART_RETRY = 10.0
READY_RETRY = 5.0
FAILURE_RETRY = 30.0
"""The interval for failures that another try may solve."""
BROKEN_RETRY = 60.0
"""The interval for problems that only a user can solve."""


def decide(observed: Observed, now: datetime, results: Results | None = None) -> Decision:
    """Decides the next step, with the name of the Cluster for the log."""
    context = {"cluster": str(dig(observed.proxy, "spec.clusterRef.name", ""))}
    return replace(_decide(observed, now, results), context=context)


def _decide(observed: Observed, now: datetime, results: Results | None) -> Decision:
    proxy, cluster = observed.proxy, observed.cluster
    if proxy is None:
        return Decision(message="the HelmReleaseProxy does not exist")
    if cluster_api.is_paused(proxy) or (cluster is not None and cluster_api.is_paused(cluster)):
        return Decision(message="paused")
    if isinstance(observed.finding, LeftTo):
        return Decision(
            requeue_after=BROKEN_RETRY, message=f"{observed.finding.controller} runs and reconciles this object"
        )
    builder = ReleaseStatusBuilder(proxy, now)
    if deleting(proxy):
        return reconcile_deletion(builder, observed, results)
    if get_condition(builder.conditions, RELEASE_READY) is None:
        builder.prepare("")
    if cluster is None:
        return _no_cluster(builder, observed)
    if is_installed_once(proxy):
        builder.cluster_available()
        builder.set_true(RELEASE_READY, "Ready")
        return builder.decision(
            *_finalizer(builder),
            message="the release is installed, and reconcileStrategy InstallOnce leaves it unchanged",
        )
    if not cluster_api.control_plane_initialized(cluster):
        builder.set_false(CLUSTER_AVAILABLE, "NotAvailable", "the control plane of the Cluster is not initialized")
        return _wait(builder, FAILURE_RETRY, "the control plane of the Cluster is not initialized")
    if not dig(proxy, "spec.releaseName"):
        return _name_release(builder)
    if isinstance(observed.finding, ConnectionFailed):
        message = observed.finding.message
        builder.set_false(CLUSTER_AVAILABLE, "GetKubeconfigFailed", message)
        return _wait(builder, CLUSTER_RETRY, message)
    builder.cluster_available()
    match observed.finding:
        case MissingChart() as missing:
            return _no_chart(builder, missing)
        case Problem(message):
            builder.fail(message)
            return _wait(builder, BROKEN_RETRY, message)
        case Rival(name):
            message = (
                f"HelmReleaseProxy {name} installs release {proxy['spec']['releaseName']} in namespace "
                f"{dig(proxy, 'spec.namespace', '')} of this cluster, too: give one of the two HelmReleaseProxies "
                "another release name"
            )
            builder.fail(message)
            return _wait(builder, BROKEN_RETRY, message)
        case UpToDate(chart):
            builder.set_true(RELEASE_READY, "Ready")
            reply = chart.lookup_request(proxy, now, source=SOURCE)
            return builder.decision(*_finalizer(builder), reply=reply, message="deployed")
        case GivenUp(chart):
            reply = chart.lookup_request(proxy, now, source=SOURCE)
            return builder.decision(
                *_finalizer(builder), reply=reply, message="the installation failed, was undone, and is not tried again"
            )
        case Adoption() as adoption:
            return _adopt(builder, adoption)
        case Removal() as removal:
            return _undo_installation(builder, removal, results)
        case Work() as work:
            return _roll_out(builder, work, results)
    return Decision(message="nothing to do")


def _no_cluster(builder: ReleaseStatusBuilder, observed: Observed) -> Decision:
    failed = observed.finding if isinstance(observed.finding, ConnectionFailed) else None
    message = failed.message if failed else f"Cluster {dig(builder.obj, 'spec.clusterRef.name', '')} does not exist"
    builder.set_false(CLUSTER_AVAILABLE, "GetClusterFailed", message)
    # The HelmChartProxy deletes a HelmReleaseProxy without a Cluster, unless it is installed once.
    seconds = BROKEN_RETRY if failed or not is_installed_once(builder.obj) else None
    return builder.decision(*_finalizer(builder), requeue_after=seconds, message=message)


def _name_release(builder: ReleaseStatusBuilder) -> Decision:
    """Stores a generated name before the first installation, so that no crash loses the release."""
    name = generated_name(str(dig(builder.obj, "spec.chartName", "")), str(dig(builder.obj, "metadata.uid", "")))
    patch = {
        "metadata": {"annotations": {RELEASE_NAME_GENERATED: "true"}},
        "spec": {"releaseName": name},
    }
    return Decision(
        (Patch(HELM_RELEASE_PROXY, builder.obj, patch),), proceed=True, message=f"release name {name} generated"
    )


def _no_chart(builder: ReleaseStatusBuilder, missing: MissingChart) -> Decision:
    if missing.failure:
        builder.fail(missing.message)
    else:
        builder.prepare(missing.message)
    request = missing.fetch_request(builder.obj, builder.now, source=SOURCE)
    return _wait(builder, CHART_RETRY, missing.message, reply=request)


def _adopt(builder: ReleaseStatusBuilder, adoption: Adoption) -> Decision:
    """Takes over a deployed release as it is: nothing is written to its cluster."""
    record = adoption.record
    if problem := inventory.why_too_large(inventory.Plan((), rest=tuple(adoption.entries))):
        builder.fail(problem)
        return _wait(builder, BROKEN_RETRY, problem)
    builder.set_true(RELEASE_READY, "Ready")
    return builder.decision(
        *_finalizer(builder),
        *_mark_installed(builder),
        message=f"release {record.name} is adopted at revision {record.revision}",
        status=record.status,
        revision=record.revision,
        digest=adoption.digest,
        recordDigest=record.digest,
        chartVersion=adoption.chart.version,
        resources=inventory.dump(adoption.entries),
    )


def _roll_out(builder: ReleaseStatusBuilder, work: Work, results: Results | None) -> Decision:
    """Installs, upgrades or checks the release, and reports the results."""
    name = f"release {work.record.name} revision {work.record.revision}"
    if results is not None and isinstance(results.error, ReleaseIncomplete):
        return _incomplete(builder, results.error, name, work)
    if results is not None and results.error is not None:
        return Decision()  # the runtime raises the error
    if results is not None and (rolled := results.of(RollOutRelease)):
        return _deployed(builder, work, rolled[-1], name)
    plan = work.rollout.plan
    if problem := inventory.why_too_large(plan):
        builder.fail(problem)
        return _wait(builder, BROKEN_RETRY, problem)
    effects: list[Effect] = [*_finalizer(builder)]
    if work.operation != "check":
        fields: dict[str, Any] = {}
        if work.is_new and work.operation != "rollback":
            builder.set_false(RELEASE_READY, "HelmReleasePending", f"release is in state {work.record.status}")
            fields = {"failedAttempt": None, "formerRecordDigest": work.former_digest or None}
        intent = builder.status(
            status=work.record.status,
            revision=work.record.revision,
            digest=work.digest,
            recordDigest=work.record.digest,
            chartVersion=work.chart.version,
            resources=inventory.dump(inventory.intent(plan)),
            **fields,
        )
        effects += write_ahead(HELM_RELEASE_PROXY, builder.obj, intent)
    effects.append(RollOutRelease(work, builder.now))
    return Decision((*effects, *_mark_installed(builder)), message=name)


def _undo_installation(builder: ReleaseStatusBuilder, removal: Removal, results: Results | None) -> Decision:
    """Removes a failed installation with `atomic`. The condition keeps the failure."""
    name = f"release {removal.release.name}"
    if results is None:
        intent = builder.status(status=UNINSTALLING)
        effects: tuple[Effect, ...] = (
            *write_ahead(HELM_RELEASE_PROXY, builder.obj, intent),
            RemoveRelease(removal, builder.now),
        )
        return Decision(effects, message=f"the failed installation of {name} is undone")
    if isinstance(results.error, ReleaseIncomplete):
        error = results.error
        builder.fail(f"the failed installation is not undone: {error}")
        fields: dict[str, Any] = {} if error.entries is None else {"resources": inventory.dump(error.entries)}
        decision = builder.decision(requeue_after=FAILURE_RETRY, message=f"{name}: {error}", **fields)
        return replace(decision, reports=error)
    if results.error is not None:
        return Decision()  # the runtime raises the error
    builder.fail(f"{_failure(builder)}; the installation is undone")
    return builder.decision(
        message=f"the failed installation of {name} is undone",
        status=UNINSTALLED,
        revision=None,
        digest=None,
        recordDigest=None,
        failedAttempt=removal.attempt,
        resources=[],
    )


def _failure(builder: ReleaseStatusBuilder) -> str:
    return str((get_condition(builder.conditions, RELEASE_READY) or {}).get("message") or "failed")


def _incomplete(builder: ReleaseStatusBuilder, error: ReleaseIncomplete, name: str, work: Work) -> Decision:
    message, record = str(error), error.record
    if work.operation == "rollback":
        if not error.waiting:
            builder.fail(f"the rollback is not complete: {message}")
    elif error.waiting:
        builder.set_false(RELEASE_READY, "HelmReleasePending", message, progress=True)
    else:
        builder.fail(message)
    fields: dict[str, Any] = {"status": FAILED, "revision": None}
    if record is not None:
        fields = {"status": record.status, "revision": record.revision}
    # Without a record of this revision the next attempt begins anew.
    fields |= {"digest": None} if error.entries is None else {"resources": inventory.dump(error.entries)}
    seconds = READY_RETRY if error.waiting or work.options.atomic else FAILURE_RETRY
    decision = builder.decision(requeue_after=seconds, message=f"{name}: {message}", **fields)
    return replace(decision, reports=error)


def _deployed(builder: ReleaseStatusBuilder, work: Work, rolled: Rolled, name: str) -> Decision:
    fields: dict[str, Any] = {"digest": work.digest}
    if work.operation == "rollback":
        builder.fail(f"{_failure(builder)}; {work.record.description.lower()} is done")
        fields = {"digest": None, "failedAttempt": work.attempt, "formerRecordDigest": None}
    elif dig(builder.obj, "status.failedAttempt") == work.attempt:
        fields = {}
    else:
        builder.set_true(RELEASE_READY, "Ready", event_type="")
    if rolled.outcome.written or rolled.outcome.pruned:
        builder.add_event("ReleaseDeployed", f"{name}: {rolled.outcome.summary}")
    return builder.decision(
        message=f"{name}: {rolled.outcome.summary}",
        reply=work.chart.lookup_request(builder.obj, builder.now, source=SOURCE),
        status=DEPLOYED,
        revision=work.record.revision,
        chartVersion=(work.record.chart_version if work.operation == "rollback" else work.chart.version),
        # Hooks move in the order of a sync, and a moved entry would be a write.
        resources=inventory.dump(sorted(rolled.outcome.entries, key=lambda entry: entry.identity)),
        **fields,
    )


def _wait(builder: ReleaseStatusBuilder, seconds: float, message: str, *, reply: Event | None = None) -> Decision:
    return builder.decision(*_finalizer(builder), requeue_after=seconds, message=message, reply=reply)


def _finalizer(builder: ReleaseStatusBuilder) -> tuple[Effect, ...]:
    return ensure_finalizer(HELM_RELEASE_PROXY, builder.obj, HRP_FINALIZER)


def _mark_installed(builder: ReleaseStatusBuilder) -> tuple[Effect, ...]:
    """Returns the patch that marks a release of the strategy InstallOnce as installed; none for other strategies."""
    once = dig(builder.obj, "spec.reconcileStrategy") == INSTALL_ONCE
    if not once or INSTALLED in dig(builder.obj, "metadata.annotations", {}):
        return ()
    return (Patch(HELM_RELEASE_PROXY, builder.obj, {"metadata": {"annotations": {INSTALLED: "true"}}}),)
