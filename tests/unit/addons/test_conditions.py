"""All that a ClusterAddon tells in each situation: its conditions with severities, and the events about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.addon_apply.observe import Finding
from functions.addon_apply.readiness import RecheckReadiness
from shared import charts
from shared.addons import manifest_history
from shared.addons.context import AwaitingReadiness, ReleaseContext, RollbackContext, UpToDate
from shared.addons.target import AFTER, BEFORE, DONE, WORKING, SyncTarget
from shared.api.conditions import get_condition, rfc3339
from shared.api.names import STAGE_ANNOTATION
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import dump
from shared.applier.outcome import Drift, SyncIncomplete, SyncOutcome
from shared.applier.policy import PolicyError
from shared.applier.sync import Sync
from shared.effects import Patch
from shared.kube import ApiError, Object
from shared.releases.missing_assets import MissingAssets
from shared.releases.source_resolution import ReleaseNotShared
from shared.releases.stages import AFTER_CONTROL_PLANE_INITIALIZED, Stage, StageCondition, Stages
from shared.runtime import Decision
from tests.support.addon_cases import (
    BOUND,
    EXISTS,
    NAME,
    NOW,
    POLICY,
    REACHED,
    TAG,
    WIDGET,
    a_cluster,
    a_release,
    an_addon,
    applied_before,
    assets,
    decided,
    entry_of_a,
    reported,
)
from tests.support.releases import config_map
from tests.support.reported import reported_by

INVALID = StageCondition("a.data.k +", (BOUND,))
FORMER = "docker-ferrol-1-27-v1"

REACHED_REPORTED = {"ClusterReady": "True"}
STORED = {**REACHED_REPORTED, "ClusterStackReleaseDownloaded": "True"}
UNTEMPLATED = {**STORED, "HelmChartTemplated": "False TemplateNewClusterStackFailed Error"}
APPLYING = {**STORED, "HelmChartApplied": "False ObjectsApplyingOngoing Info"}


def staged(stage: Stage, phase: str, *, since: float = 0, **more: Any) -> ReleaseContext:
    """Returns the context of a release with this stage only, which is in `phase` since so many seconds."""
    content = assets(Stages({AFTER_CONTROL_PLANE_INITIALIZED: (stage,)}), **{stage.name: [config_map("a")]})
    found = a_release(content=content)
    began = rfc3339(NOW - timedelta(seconds=since))
    recorded = [{"name": stage.name, "action": stage.action, "phase": phase, "since": began}] if phase else []
    return a_release(an_addon(stages=recorded, digest=found.target.digest), content, **more)


def before(condition: StageCondition, objects: Any, **more: Any) -> ReleaseContext:
    return staged(Stage("net", before=condition), BEFORE, condition_objects=objects, **more)


def after(objects: Any, **more: Any) -> ReleaseContext:
    return staged(Stage("net", after=EXISTS), AFTER, condition_objects=objects, **more)


def a_rollback(problem: str = "", addon: Object | None = None) -> RollbackContext:
    kept = manifest_history.StoredManifest(FORMER, "v1", (config_map("a"),), problem)
    target = SyncTarget(FORMER, "v1", hook="rollback", cluster_uid="c")
    return RollbackContext(
        addon=addon or an_addon(), policy=POLICY, connection=REACHED, inventory=[], target=target, manifest=kept
    )


def cel(reason: str) -> dict[str, str]:
    return {**STORED, "EvaluatedCEL": f"False {reason}"}


@pytest.mark.parametrize(
    ("found", "cluster", "conditions", "events", "requeue_after"),
    [
        pytest.param(
            None, a_cluster(paused=True), {"ClusterReady": "False Paused Info"}, ["Normal Paused"], None, id="paused"
        ),
        pytest.param(
            None,
            a_cluster(topology={}),
            {"ClusterStackReleaseDownloaded": "False NoClusterStack Warning"},
            ["Warning NoClusterStack"],
            None,
            id="no class",
        ),
        pytest.param(
            PolicyError("drift: what?"),
            None,
            {"ClusterAddonConfigValidated": "False InvalidAnnotation Error"},
            ["Warning InvalidAnnotation"],
            60.0,
            id="annotation that a user has to correct",
        ),
        pytest.param(
            ConnectionFailed("none yet"),
            None,
            {"ClusterReady": "False ControlPlaneNotReady Info"},
            [],
            10.0,
            id="new cluster",
        ),
        pytest.param(
            ConnectionFailed("broken", "Error"),
            None,
            {"ClusterReady": "False ControlPlaneNotReady Error"},
            ["Warning ControlPlaneNotReady"],
            10.0,
            id="no connection, ever",
        ),
        pytest.param(
            MissingAssets(TAG),
            None,
            {**REACHED_REPORTED, "ClusterStackReleaseDownloaded": "False ReleaseAssetsNotDownloadedYet Info"},
            [],
            10.0,
            id="release not fetched yet",
        ),
        pytest.param(
            MissingAssets(TAG, "no such release"),
            None,
            {**REACHED_REPORTED, "ClusterStackReleaseDownloaded": "False IssueWithReleaseAssets Error"},
            ["Warning IssueWithReleaseAssets"],
            10.0,
            id="release that cannot be fetched",
        ),
        pytest.param(
            ReleaseNotShared(TAG, "other", "ns"),
            None,
            {**REACHED_REPORTED, "ClusterStackReleaseDownloaded": "False ReleaseNotShared Error"},
            ["Warning ReleaseNotShared"],
            60.0,
            id="private release",
        ),
        pytest.param(
            charts.ChartError("too large"),
            None,
            UNTEMPLATED,
            ["Warning TemplateNewClusterStackFailed"],
            60.0,
            id="charts that cannot be read",
        ),
        pytest.param(
            a_release(content=assets(addons=[{"kind": "no version"}])),
            None,
            UNTEMPLATED,
            ["Warning TemplateNewClusterStackFailed"],
            60.0,
            id="chart that cannot be rendered",
        ),
        pytest.param(
            a_release(unreadable="not there"),
            None,
            UNTEMPLATED,
            ["Warning TemplateNewClusterStackFailed"],
            10.0,
            id="reference that cannot be read",
        ),
        pytest.param(
            a_release(content=assets(problem="no stages at all")),
            None,
            {**STORED, "ClusterAddonConfigValidated": "False ParsingClusterAddonConfigFailed Error"},
            ["Warning ParsingClusterAddonConfigFailed"],
            60.0,
            id="stages that cannot be read",
        ),
        pytest.param(
            a_release(content=assets(addons=[WIDGET])),
            None,
            {**STORED, "HelmChartApplied": "False FailedToApplyObjects Error"},
            ["Warning FailedToApplyObjects"],
            20.0,
            id="kind that is not served",
        ),
        pytest.param(UpToDate(), None, {}, [], None, id="applied"),
        pytest.param(
            a_rollback("there is no manifest"),
            None,
            {**REACHED_REPORTED, "HelmChartApplied": "False RollbackFailed Error"},
            ["Warning RollbackFailed"],
            60.0,
            id="nothing to roll back to",
        ),
        pytest.param(
            before(EXISTS, {"a": None}),
            None,
            cel("FailedToEvaluatePreCondition Info"),
            ["Normal FailedToEvaluatePreCondition"],
            20.0,
            id="condition before a stage",
        ),
        pytest.param(
            before(EXISTS, {"a": None}, since=601),
            None,
            cel("PreConditionOverdue Warning"),
            ["Warning PreConditionOverdue"],
            20.0,
            id="condition before a stage, overdue",
        ),
        pytest.param(
            before(INVALID, {"a": config_map("a")}),
            None,
            cel("FailedToEvaluatePreCondition Error"),
            ["Warning FailedToEvaluatePreCondition"],
            20.0,
            id="condition that will never be met",
        ),
        pytest.param(
            before(EXISTS, ConnectionFailed("no answer")),
            None,
            cel("FailedToEvaluatePreCondition Info"),
            ["Warning FailedToEvaluatePreCondition"],
            20.0,
            id="condition about objects that cannot be read",
        ),
        pytest.param(
            after({"a": None}),
            None,
            cel("FailedToEvaluatePostCondition Info"),
            ["Normal FailedToEvaluatePostCondition"],
            20.0,
            id="condition after a stage",
        ),
        pytest.param(
            after({"a": None}, since=601),
            None,
            cel("PostConditionOverdue Warning"),
            ["Warning PostConditionOverdue"],
            20.0,
            id="condition after a stage, overdue",
        ),
        pytest.param(after({"a": config_map("a")}), None, STORED, [], None, id="stage that is done"),
    ],
)
def test_all_that_an_obstacle_tells(
    found: Finding | ReleaseContext | None,
    cluster: Object | None,
    conditions: dict[str, str],
    events: list[str],
    requeue_after: float | None,
) -> None:
    decision = decided(found, cluster=cluster)
    assert (*reported_by(decision), decision.requeue_after) == (conditions, events, requeue_after)
    assert (decision.status or {}).get("ready", False) is False


AWAITING = AwaitingReadiness(POLICY, REACHED, [])
STARTING = entry_of_a(waiting="is starting")
APPLIED = {**STORED, "HelmChartApplied": "True"}


@pytest.mark.parametrize(
    ("found", "values", "error", "conditions", "events", "requeue_after"),
    [
        pytest.param(
            a_release(),
            {Sync: SyncOutcome()},
            None,
            {**APPLIED, "ObjectsReady": "True"},
            [],
            None,
            id="sync",
        ),
        pytest.param(
            a_release(policy=replace(POLICY, wait=False)),
            {Sync: SyncOutcome(entries=(STARTING,))},
            None,
            APPLIED,
            [],
            None,
            id="sync that waits for nothing",
        ),
        pytest.param(
            a_release(),
            {Sync: SyncOutcome(entries=(STARTING,))},
            None,
            {**APPLIED, "ObjectsReady": "False WaitingForObjects Info"},
            ["Normal WaitingForObjects"],
            5.0,
            id="sync of objects that start",
        ),
        pytest.param(
            a_release(),
            {},
            SyncIncomplete(SyncOutcome((entry_of_a(error="refused"),))),
            {**STORED, "HelmChartApplied": "False FailedToApplyObjects Info"},
            ["Warning FailedToApplyObjects"],
            20.0,
            id="sync that failed",
        ),
        pytest.param(
            a_release(),
            {},
            SyncIncomplete(SyncOutcome((STARTING,))),
            APPLYING,
            ["Normal ObjectsApplyingOngoing"],
            5.0,
            id="wave that is not complete",
        ),
        pytest.param(
            a_rollback(),
            {Sync: SyncOutcome()},
            None,
            {**REACHED_REPORTED, "HelmChartApplied": "False RolledBack Warning"},
            ["Warning RolledBack"],
            None,
            id="rollback",
        ),
        pytest.param(
            a_rollback(
                addon=an_addon(
                    *(
                        {"type": type_, "status": "True", "lastTransitionTime": rfc3339(NOW)}
                        for type_ in ("ObjectsReady", "ClusterStackReleaseDownloaded")
                    )
                )
            ),
            {Sync: SyncOutcome()},
            None,
            {**REACHED_REPORTED, "HelmChartApplied": "False RolledBack Warning"},
            ["Warning RolledBack"],
            None,
            id="rollback: nothing is reported of the release that was rejected",
        ),
        pytest.param(
            staged(Stage("net"), WORKING),
            {Sync: SyncOutcome()},
            None,
            APPLYING,
            ["Normal StageDone"],
            None,
            id="stage",
        ),
        pytest.param(
            AWAITING,
            {RecheckReadiness: [entry_of_a()]},
            None,
            {**STORED, "ObjectsReady": "True"},
            ["Normal AddonsReady"],
            None,
            id="objects that are ready",
        ),
        pytest.param(
            AWAITING,
            {RecheckReadiness: [STARTING]},
            None,
            {**STORED, "ObjectsReady": "False WaitingForObjects Info"},
            ["Normal WaitingForObjects"],
            5.0,
            id="objects that are not ready",
        ),
        pytest.param(
            AWAITING,
            {},
            ApiError("no answer"),
            {**STORED, "ClusterReady": "False ControlPlaneNotReady Info"},
            ["Warning ControlPlaneNotReady"],
            10.0,
            id="objects that cannot be read",
        ),
    ],
)
def test_all_that_a_result_tells(
    found: Finding | ReleaseContext,
    values: dict[type, object],
    error: Exception | None,
    conditions: dict[str, str],
    events: list[str],
    requeue_after: float | None,
) -> None:
    decision = reported(found, values, error=error)
    assert (*reported_by(decision), decision.requeue_after) == (conditions, events, requeue_after)
    is_applied = conditions.get("HelmChartApplied", "True") == "True"
    assert (decision.status or {})["ready"] is (is_applied and requeue_after is None)


def intents(found: ReleaseContext | RollbackContext) -> list[Object]:
    """Returns the patches of the addon: the intent before the sync, the record after it."""
    return [effect.patch for effect in decided(found).effects if isinstance(effect, Patch)]


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        (a_release(), "ObjectsApplyingOngoing", f"applying 1 object of {TAG}"),
        (a_rollback(), "RollingBack", f"rolling back to {FORMER}"),
        (staged(Stage("net"), ""), "ObjectsApplyingOngoing", f"{TAG}: stage net"),
    ],
    ids=["release", "rollback", "stage"],
)
def test_intent_tells_what_is_going_on(found: ReleaseContext | RollbackContext, reason: str, message: str) -> None:
    status = intents(found)[0]["status"]
    applied = get_condition(status["conditions"], "HelmChartApplied") or {}
    assert (applied["status"], applied["reason"], applied["severity"]) == ("False", reason, "Info")
    assert applied["message"] == message
    assert reported_by(Decision(status=status))[0]["ClusterReady"] == "True"
    assert (status["ready"], status["digest"]) == (False, found.target.digest)


@pytest.mark.parametrize("version", ["", "v1.27.4"])
def test_kubernetes_version_that_charts_saw_is_recorded(version: str) -> None:
    found = a_release()
    found = replace(found, target=replace(found.target, kubernetes_version=version))
    assert intents(found)[0]["status"]["kubernetesVersion"] == (version or None)
    status = reported(found, {Sync: SyncOutcome()}).status or {}
    assert (status["kubernetesVersion"], status["digest"]) == (version or None, found.target.digest)


@pytest.mark.parametrize(
    ("spec", "annotation", "expected"),
    [
        ({}, None, "created"),
        ({"clusterStack": FORMER}, "created", "upgraded"),
        ({"clusterStack": NAME.class_name, "version": "v1"}, "created", "created"),
        ({"clusterStack": NAME.class_name, "version": "v1"}, None, "created"),
        ({"clusterStack": NAME.class_name, "version": "v1"}, "upgraded", "upgraded"),
    ],
)
def test_record_says_whether_addons_were_created_or_upgraded(
    spec: Object, annotation: str | None, expected: str
) -> None:
    addon = an_addon(spec=spec)
    if annotation:
        addon["metadata"]["annotations"] = {STAGE_ANNOTATION: annotation}
    assert intents(a_release(addon))[-1]["metadata"] == {"annotations": {STAGE_ANNOTATION: expected}}


@pytest.mark.parametrize(
    ("known", "extra", "kinds"),
    [
        pytest.param({}, [], ["CountedSync", "Patch"], id="nothing changed"),
        pytest.param({"hash": "other"}, [], ["Patch", "CountedSync", "SaveManifest", "Patch"], id="changed object"),
        pytest.param({}, ["b"], ["Patch", "CountedSync", "Patch"], id="object to prune"),
    ],
)
def test_drift_check_writes_ahead_what_it_is_going_to_change(
    known: dict[str, str], extra: list[str], kinds: list[str]
) -> None:
    entries = [entry_of_a(**known), *(entry_of_a(name=name) for name in extra)]
    found = a_release(applied_before(ready=True), inventory=entries, policy=replace(POLICY, drift="repair"))
    assert [type(effect).__name__ for effect in decided(found).effects] == kinds


@pytest.mark.parametrize("wait", [True, False])
def test_release_with_the_same_addons_tells_readiness_only_where_it_is_waited_for(wait: bool) -> None:
    addon = an_addon(spec={"clusterStack": FORMER, "version": "v2"}, ready=True, digest="other")
    decision = decided(a_release(addon, policy=replace(POLICY, wait=wait)))
    assert reported_by(decision) == ({**APPLIED, **({"ObjectsReady": "True"} if wait else {})}, [])


@pytest.mark.parametrize(("drift", "listed"), [("report", True), ("repair", False)])
def test_drift_is_listed_only_where_it_is_not_repaired(drift: Any, listed: bool) -> None:
    found = a_release(applied_before(), inventory=[entry_of_a()], policy=replace(POLICY, drift=drift))
    outcome = SyncOutcome(drift=[Drift(entry_of_a())])
    assert bool((reported(found, {Sync: outcome}).status or {})["drift"]) is listed


@pytest.mark.parametrize(
    ("seconds", "requeue_after"), [(0, 5.0), (POLICY.wait_timeout, 5.0), (POLICY.wait_timeout + 1, 60.0)]
)
def test_objects_that_do_not_become_ready_are_reported_after_their_time(seconds: float, requeue_after: float) -> None:
    began = rfc3339(NOW - timedelta(seconds=seconds))
    known = {"type": "ObjectsReady", "status": "False", "reason": "WaitingForObjects", "lastTransitionTime": began}
    decision = reported(a_release(an_addon(known)), {Sync: SyncOutcome(entries=(STARTING,))})
    late = requeue_after > 5
    assert reported_by(decision) == (
        {**APPLIED, "ObjectsReady": "False ObjectsNotReady Warning" if late else "False WaitingForObjects Info"},
        ["Warning ObjectsNotReady"] if late else [],
    )
    assert decision.requeue_after == requeue_after


def test_progress_of_a_wave_is_no_event() -> None:
    known = {
        "type": "HelmChartApplied",
        "status": "False",
        "reason": "ObjectsApplyingOngoing",
        "severity": "Info",
        "message": "waiting for others",
        "lastTransitionTime": rfc3339(NOW),
    }
    waiting = SyncIncomplete(SyncOutcome((STARTING,)))
    decision = reported(a_release(an_addon(known)), error=waiting)
    assert reported_by(decision) == (APPLYING, [])
    assert (decision.status or {})["resources"] == dump([STARTING])


@pytest.mark.parametrize(("action", "verb"), [("apply", "applied"), ("delete", "deleted")])
def test_stage_tells_what_was_done(action: Any, verb: str) -> None:
    decision = reported(staged(Stage("net", action), WORKING), {Sync: SyncOutcome()})
    [event] = decision.kubernetes_events
    assert (event.message, decision.message) == (f"{TAG}: stage net {verb}", f"{TAG}: stage net {verb}")
    assert [stage["phase"] for stage in (decision.status or {})["stages"]] == [DONE]
