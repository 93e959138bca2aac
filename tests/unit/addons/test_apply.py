"""Decisions and reports of `addon_apply` as tables."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.addon_apply.decide import decide
from functions.addon_apply.observe import Finding, Observed
from functions.addon_apply.readiness import RecheckReadiness
from functions.addon_apply.report import report_generated_values
from functions.addon_apply.status import GENERATED_VALUES_KEPT, AddonStatusBuilder
from functions.addon_apply.sync import CountedSync
from functions.addon_apply.unreconciled import ReportUnreconciled
from shared import charts
from shared.addons import manifest_history, stored_values
from shared.addons.context import AwaitingReadiness, RollbackContext, UpToDate
from shared.addons.first_values import FirstValues, GeneratedField
from shared.addons.secret_record import DeleteSecret, pack, unpack
from shared.addons.target import SyncTarget
from shared.api.conditions import get_condition, rfc3339
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import NOT_SYNCED, entry_of
from shared.applier.outcome import Drift, SyncIncomplete, SyncOutcome
from shared.applier.policy import PolicyError
from shared.applier.sync import Sync
from shared.effects import Delete, Patch, RemoveFinalizer, Results
from shared.kube import ApiError, Object
from shared.releases.missing_assets import MissingAssets
from shared.runtime import Decision
from shared.sandbox import Busy, slots
from tests.support.addon_cases import (
    NAME,
    NOW,
    POLICY,
    REACHED,
    TAG,
    WIDGET,
    a_cluster,
    a_release,
    actions,
    an_addon,
    applied_before,
    assets,
    condition,
    decided,
    entry_of_a,
    refuses_too_many,
    reported,
    seen,
    sync,
)
from tests.support.releases import config_map
from tests.support.results import results_of

# -- obstacles ---------------------------------------------------------------------------------------------------


def test_deleted_addon_needs_nothing() -> None:
    assert decide(Observed(None), NOW).effects == ()


@pytest.mark.parametrize(
    ("cluster", "deleted", "effects"),
    [
        (None, False, []),
        (None, True, [DeleteSecret, DeleteSecret, RemoveFinalizer]),
        (a_cluster(), True, [DeleteSecret, DeleteSecret, RemoveFinalizer]),
        (a_cluster(paused=True), True, []),
    ],
    ids=["no Cluster", "deleted, no Cluster", "deleted, Cluster", "deleted, paused Cluster"],
)
def test_finalizer_of_a_deleted_addon_is_removed_with_its_secrets(
    cluster: Object | None, deleted: bool, effects: list[type]
) -> None:
    addon = an_addon()
    addon["metadata"] |= {"deletionTimestamp": "x"} if deleted else {}
    assert [type(effect) for effect in decide(Observed(addon, cluster), NOW).effects] == effects


def test_addon_of_an_earlier_cluster_is_deleted() -> None:
    addon = an_addon(spec={"clusterRef": {"name": "demo", "uid": "other"}})
    assert [type(effect) for effect in decided(None, addon).effects] == [Delete]


def test_addon_that_was_moved_with_its_cluster_is_kept() -> None:
    addon = an_addon(spec={"clusterRef": {"name": "demo", "uid": "source"}})
    addon["metadata"]["ownerReferences"] = [{"kind": "Cluster", "name": "demo", "uid": "c"}]
    stored = manifest_history.StoredManifest(NAME.class_name, "v1", (WIDGET,))
    first = decide(Observed(addon, a_cluster(), moved=stored), NOW)
    assert first.proceed
    assert [entry["version"] for entry in (first.status or {})["history"]] == ["v1"]
    assert [entry["kind"] for entry in (first.status or {})["resources"]] == ["Widget"], "the inventory is as it was"
    addon["status"] |= first.status or {}
    decision = decide(Observed(addon, a_cluster(), moved=stored), NOW)
    assert [effect.patch for effect in decision.effects if isinstance(effect, Patch)] == [
        {"spec": {"clusterRef": {"uid": "c"}}}
    ]
    assert decision.proceed
    assert decision.kubernetes_events == ()
    assert decided(None, addon, a_cluster(paused=True)).effects == (), "clusterctl has not moved its Secrets yet"


def test_lost_inventory_of_a_moved_addon_is_reported() -> None:
    addon = an_addon(spec={"clusterRef": {"name": "demo", "uid": "source"}, "clusterStack": NAME.class_name})
    addon["metadata"]["ownerReferences"] = [{"kind": "Cluster", "name": "demo", "uid": "c"}]
    missing = manifest_history.StoredManifest(problem="Secret s has no manifest of c")
    decision = decide(Observed(addon, a_cluster(), moved=missing), NOW)
    assert [effect.patch for effect in decision.effects if isinstance(effect, Patch)] == [
        {"spec": {"clusterRef": {"uid": "c"}}}
    ]
    [event] = decision.kubernetes_events
    assert (event.reason, event.type) == ("InventoryLost", "Warning")
    assert event.message.startswith("Secret s has no manifest of c: objects that the next release does not contain")


@pytest.mark.parametrize(
    ("reports", "age", "status"),
    [
        (False, 59, {}),
        (True, 61, {}),
        (True, 61, {"conditions": [{"type": "Other", "status": "True"}]}),
        (False, 61, {"observedGeneration": 1}),
        (False, 61, {"conditions": [{"type": "Available", "status": "Unknown", "reason": "NotReconciled"}]}),
    ],
    ids=["new", "not reconciled", "condition of another program", "reconciled", "reported"],
)
def test_cluster_that_no_program_reconciles_is_reported(reports: bool, age: float, status: Object) -> None:
    cluster = a_cluster() | {"status": status}
    cluster["metadata"]["creationTimestamp"] = rfc3339(NOW - timedelta(seconds=age))
    decision = decided(ConnectionFailed("no kubeconfig"), None, cluster)
    assert [type(effect) for effect in decision.effects] == ([ReportUnreconciled] if reports else [])
    waits_in_vain = age > 60 and "observedGeneration" not in status
    assert ("No program has reconciled this Cluster" in decision.message) is waits_in_vain
    assert [type(effect) for effect in decided(UpToDate(), None, cluster).effects] == [], "a kubeconfig is there"


@pytest.mark.parametrize(
    ("found", "cluster", "type_", "reason", "requeue_after"),
    [
        (None, a_cluster(paused=True), "ClusterReady", "Paused", None),
        (None, a_cluster(topology={}), "ClusterStackReleaseDownloaded", "NoClusterStack", None),
        (PolicyError("drift: what?"), None, "ClusterAddonConfigValidated", "InvalidAnnotation", 60.0),
        (ConnectionFailed("no kubeconfig"), None, "ClusterReady", "ControlPlaneNotReady", 10.0),
        (MissingAssets(TAG), None, "ClusterStackReleaseDownloaded", "ReleaseAssetsNotDownloadedYet", 10.0),
        (MissingAssets(TAG, "no such"), None, "ClusterStackReleaseDownloaded", "IssueWithReleaseAssets", 10.0),
        (
            a_release(content=assets(problem="no stages at all")),
            None,
            "ClusterAddonConfigValidated",
            "ParsingClusterAddonConfigFailed",
            60.0,
        ),
        (a_release(unreadable="not there"), None, "HelmChartTemplated", "TemplateNewClusterStackFailed", 10.0),
        (
            a_release(content=assets(addons=[{"kind": "no version"}])),
            None,
            "HelmChartTemplated",
            "TemplateNewClusterStackFailed",
            60.0,
        ),
        (
            charts.RenderError("c.tgz: processing took longer than 60 s, and was ended"),
            None,
            "HelmChartTemplated",
            "TemplateNewClusterStackFailed",
            60.0,
        ),
        (a_release(content=assets(addons=[WIDGET])), None, "HelmChartApplied", "FailedToApplyObjects", 20.0),
    ],
)
def test_each_obstacle_has_a_condition_and_an_interval(
    found: Finding | None, cluster: Object | None, type_: str, reason: str, requeue_after: float | None
) -> None:
    decision = decided(found, cluster=cluster)
    assert (*condition(decision, type_)[:2], decision.requeue_after) == ("False", reason, requeue_after)
    assert not any(isinstance(effect, (Sync, Patch)) for effect in decision.effects)
    assert {event.type for event in decision.kubernetes_events} <= {"Normal", "Warning"}


def test_generated_values_too_large_for_a_secret_are_reported() -> None:
    field = GeneratedField("", "Secret db", ("data", "password"))
    builder = AddonStatusBuilder.of(an_addon(), a_cluster(), NOW)
    for value, words in (
        ("short", ("True", "RenderNotRepeatable")),
        (random.Random(1).randbytes(2**20).hex(), ("False", "TooLarge")),
    ):
        keep = stored_values.SaveValues(
            an_addon(), stored_values.StoredValues(), FirstValues("c.tgz", {field: value}), (field,)
        )
        report_generated_values(builder, NAME, keep)
        found = get_condition(builder.conditions, GENERATED_VALUES_KEPT) or {}
        assert (found["status"], found["reason"]) == words


@pytest.mark.parametrize("damaged", ["", "no base64", "AAAA", "H4sIAAAAAAAC/////////////w=="])
def test_unpack_rejects_damaged_records(damaged: str) -> None:
    assert unpack(pack({"a": [1]}, 100)) == {"a": [1]}
    with pytest.raises(ValueError, match=r"."):
        unpack(damaged)


def test_missing_release_is_requested() -> None:
    reply = decided(MissingAssets(TAG)).reply
    assert reply is not None
    assert (reply.type, reply.data) == ("dev.capi-functions.release.wanted", {"release": TAG, "namespace": "ns"})


def test_unknown_kind_is_waited_for() -> None:
    decision = decided(a_release(content=assets(addons=[WIDGET])))
    assert (decision.effects, decision.requeue_after) == ((), 20.0)
    assert condition(decision, "HelmChartApplied")[:2] == ("False", "FailedToApplyObjects")
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("FailedToApplyObjects", "Warning")]


@pytest.mark.parametrize(("before", "types"), [("True", ["ControlPlaneNotReady"]), ("False", [])])
def test_failed_connection_records_an_event_only_after_a_success(before: str, types: list[str]) -> None:
    addon = an_addon({"type": "ClusterReady", "status": before, "reason": "", "lastTransitionTime": "x"})
    assert [event.reason for event in decided(ConnectionFailed("gone"), addon).kubernetes_events] == types


def test_addon_that_is_up_to_date_gets_its_finalizer_only() -> None:
    addon = an_addon()
    addon["metadata"]["finalizers"] = []
    about = {"release": TAG, "rollbackFrom": None}
    context = {"cluster": "demo", "release": TAG}
    assert decided(UpToDate()) == Decision(status=about, message="applied", context=context)
    assert [type(effect) for effect in decided(UpToDate(), addon).effects] == [Patch]


# -- sync -----------------------------------------------------------------------------------------------------


def test_intent_is_written_before_the_rollout_and_the_record_after_it() -> None:
    decision = decided(a_release())
    assert [type(effect) for effect in decision.effects] == [
        Patch,
        CountedSync,
        manifest_history.SaveManifest,
        Patch,
    ]
    intent, record = (effect for effect in decision.effects if isinstance(effect, Patch))
    status = intent.patch["status"]
    assert ([entry["name"] for entry in status["resources"]], status["ready"]) == (["a"], False)
    assert status["digest"] == a_release().target.digest
    assert record.patch["spec"] == {"clusterStack": NAME.class_name, "version": "v2", "hook": ""}


def test_generated_values_are_stored_after_the_intent_and_before_the_rollout() -> None:
    """The first write fails if the addon has changed: a new one is not read, nor its chart rendered once more."""
    decision = decided(a_release(content=assets(addons=[config_map("a", "{{ randAlphaNum 9 }}")])))
    assert [type(effect) for effect in decision.effects][:3] == [Patch, stored_values.SaveValues, CountedSync]


@pytest.mark.parametrize(
    ("addon", "known", "expected"),
    [
        (an_addon(), {}, ["apply"]),
        (applied_before(ready=False), {}, ["keep"]),
        (applied_before(ready=False), {"status": NOT_SYNCED}, ["verify"]),
        (applied_before(ready=False), {"hash": "other"}, ["apply"]),
        (applied_before(ready=True), {}, ["verify"]),
    ],
)
def test_resumed_rollout_keeps_verifies_or_applies(addon: Object, known: dict[str, str], expected: list[str]) -> None:
    inventory = [entry_of_a(**known)] if addon["status"].get("digest") else []
    assert actions(decided(a_release(addon, inventory=inventory))) == expected


@pytest.mark.parametrize(("drift", "only_report"), [("repair", False), ("report", True)])
def test_drift_check_writes_no_intent(drift: Any, only_report: bool) -> None:
    policy = replace(POLICY, drift=drift)
    found = a_release(applied_before(ready=True), inventory=[entry_of_a()], policy=policy)
    decision = decided(found)
    assert ([type(effect) for effect in decision.effects][:1], sync(decision).only_report) == (
        [CountedSync],
        only_report,
    )
    first = replace(found, addon=an_addon())
    assert sync(decided(first)).only_report is False


def test_new_release_with_the_same_addons_skips_the_rollout() -> None:
    addon = an_addon(spec={"clusterStack": "docker-ferrol-1-27-v1", "version": "v2"}, ready=True, digest="other")
    decision = decided(a_release(addon))
    assert ([type(effect) for effect in decision.effects], decision.message) == ([Patch], "addons unchanged")
    assert decision.status is not None
    assert (decision.status["ready"], decision.status["digest"]) == (True, a_release().target.digest)


@pytest.mark.parametrize(
    ("addon", "outcome", "reasons"),
    [
        (an_addon(), SyncOutcome(written=[entry_of_a()]), []),
        (applied_before(), SyncOutcome(), []),
        (applied_before(), SyncOutcome(pruned=[entry_of_a()]), ["AddonsApplied"]),
        (
            applied_before(),
            SyncOutcome(written=[entry_of_a()], drift=[Drift(entry_of_a())]),
            ["DriftFound", "AddonsApplied"],
        ),
    ],
)
def test_rollout_records_events_of_repairs_only(addon: Object, outcome: SyncOutcome, reasons: list[str]) -> None:
    decision = reported(a_release(addon, inventory=[entry_of_a()]), {Sync: outcome})
    assert ([event.reason for event in decision.kubernetes_events], decision.requeue_after) == (reasons, None)
    assert decision.status is not None
    assert decision.status["ready"] is True
    assert "history" not in decision.status


@pytest.mark.parametrize(("kept", "reasons"), [((NAME.class_name,), []), ((), ["ManifestNotKept"])])
def test_history_lists_stored_manifests_only(kept: tuple[str, ...], reasons: list[str]) -> None:
    saved = manifest_history.SavedManifests(frozenset(kept), "" if kept else "too large")
    decision = reported(a_release(), {Sync: SyncOutcome(), manifest_history.SaveManifest: saved})
    assert [one["clusterStack"] for one in (decision.status or {})["history"]] == list(kept)
    assert [event.reason for event in decision.kubernetes_events] == reasons


def test_reported_drift_is_in_the_status() -> None:
    found = a_release(applied_before(), inventory=[entry_of_a()], policy=replace(POLICY, drift="report"))
    decision = reported(found, {Sync: SyncOutcome(drift=[Drift(entry_of_a(), ("data.k",))])})
    assert (decision.status or {})["drift"] == ["ConfigMap default/a (data.k)"]


@pytest.mark.parametrize(
    ("entry", "unavailable", "reason", "requeue_after"),
    [
        ({"error": "refused"}, False, "FailedToApplyObjects", 20.0),
        ({"error": "refused"}, True, "FailedToApplyObjects", 10.0),
        ({"waiting": "is running"}, False, "ObjectsApplyingOngoing", 5.0),
    ],
)
def test_incomplete_rollout_is_reported_and_retried(
    entry: dict[str, str], unavailable: bool, reason: str, requeue_after: float
) -> None:
    failure = SyncIncomplete(SyncOutcome(entries=(entry_of_a(**entry),)), unavailable=unavailable)
    decision = reported(a_release(), error=failure)
    assert (*condition(decision, "HelmChartApplied")[:2], decision.requeue_after) == ("False", reason, requeue_after)
    assert (decision.status or {})["ready"] is False


# -- readiness ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "waiting", "since", "expected"),
    [
        (True, "", None, ("True", "", None)),
        (True, "is starting", None, ("False", "WaitingForObjects", 5.0)),
        (True, "is starting", POLICY.wait_timeout + 1, ("False", "ObjectsNotReady", 60.0)),
        (False, "is starting", None, ("", "", None)),
    ],
)
def test_readiness_is_checked_again_until_ready_or_timeout(
    wait: bool, waiting: str, since: float | None, expected: tuple[str, str, float | None]
) -> None:
    fields = {"type": "ObjectsReady", "status": "False", "reason": "WaitingForObjects", "severity": "Info"}
    began = [{**fields, "message": "", "lastTransitionTime": rfc3339(NOW - timedelta(seconds=since))}] if since else []
    found = AwaitingReadiness(replace(POLICY, wait=wait), REACHED, [entry_of_a(waiting="is starting")])
    observed = seen(found, an_addon(*began))
    decision = decide(observed, NOW)
    assert decision.effects == (RecheckReadiness(REACHED, found.inventory),)
    result = decide(observed, NOW, results_of(decision, {RecheckReadiness: [entry_of_a(waiting=waiting)]}))
    assert (*condition(result, "ObjectsReady")[:2], result.requeue_after) == expected
    assert (result.status or {})["ready"] is (expected[2] is None)
    assert ("AddonsReady" in [event.reason for event in result.kubernetes_events]) is (wait and not waiting)


def test_connection_lost_during_the_readiness_check_is_reported() -> None:
    found = AwaitingReadiness(POLICY, REACHED, [])
    decision = reported(found, error=ApiError("no answer"))
    assert (*condition(decision, "ClusterReady")[:2], decision.requeue_after) == ("False", "ControlPlaneNotReady", 10.0)
    assert [event.reason for event in decision.kubernetes_events] == ["ControlPlaneNotReady"]


# -- rollback ----------------------------------------------------------------------------------------------------


def a_rollback(kept: manifest_history.StoredManifest) -> RollbackContext:
    target = SyncTarget(kept.class_name, kept.version, hook="rollback", cluster_uid="c")
    return RollbackContext(
        addon=an_addon(), policy=POLICY, connection=REACHED, inventory=[], target=target, manifest=kept
    )


def test_rollback_applies_the_stored_manifest_and_stays_not_ready() -> None:
    found = a_rollback(manifest_history.StoredManifest("docker-ferrol-1-27-v1", "v1", (config_map("a"),)))
    decision = decided(found)
    intent, _, record = decision.effects
    assert isinstance(intent, Patch)
    assert isinstance(record, Patch)
    going = get_condition(intent.patch["status"]["conditions"], "HelmChartApplied") or {}
    assert (going["reason"], sync(decision).plan.prune) == ("RollingBack", ())
    assert record.patch["spec"]["clusterStack"] == found.manifest.class_name
    result = reported(found, {Sync: SyncOutcome()})
    assert (*condition(result, "HelmChartApplied")[:2], result.requeue_after) == ("False", "RolledBack", None)
    assert (result.status or {})["ready"] is False


def test_rollback_without_a_manifest_is_reported() -> None:
    decision = decided(a_rollback(manifest_history.StoredManifest(problem="there is no manifest")))
    assert (*condition(decision, "HelmChartApplied")[:2], decision.requeue_after) == ("False", "RollbackFailed", 60.0)
    assert decision.effects == ()


def test_other_errors_are_left_to_the_runtime() -> None:
    failure = ApiError("refused")
    found = a_release()
    assert decide(seen(found), NOW, Results(error=failure)).reports is None


def test_busy_workers_are_not_reported_as_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_SLOT_WAIT", 0.01)
    with slots.slot(), slots.slot(), pytest.raises(Busy):
        seen(a_release(content=assets(addons=[config_map("only-here")])))


# -- more objects than a status can record ---------------------------------------------------------------------


@pytest.mark.parametrize("what", ["release", "rollback"])
def test_nothing_is_applied_if_the_inventory_would_not_fit_into_the_status(what: str) -> None:
    former = tuple(entry_of(config_map(f"m{number}")) for number in range(7000))
    stored = manifest_history.StoredManifest("docker-ferrol-1-27-v1", "v1", (config_map("a"),))
    found = replace(a_release() if what == "release" else a_rollback(stored), inventory=former)
    refuses_too_many(decided(found))
