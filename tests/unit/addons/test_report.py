"""What a ClusterAddon tells of obstacles and of its sync, and what another target leaves of that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.addon_apply.decide import decide
from functions.addon_apply.guards import finalize
from functions.addon_apply.observe import Observed
from functions.addon_apply.status import AddonStatusBuilder
from shared.addons.secret_record import DeleteSecret
from shared.addons.succession import KeepRecord
from shared.api.conditions import get_condition, rfc3339
from shared.api.names import ADDON_FINALIZER, ROLLBACK_ANNOTATION
from shared.applier.apply import FieldConflict
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import KEPT, InventoryEntry, dump
from shared.applier.outcome import Drift, SyncIncomplete, SyncOutcome
from shared.applier.sync import Sync
from shared.effects import Patch, RemoveFinalizer
from shared.kube import Object
from shared.releases.missing_assets import MissingAssets
from shared.runtime import Decision
from tests.support.addon_cases import (
    NOW,
    POLICY,
    TAG,
    a_cluster,
    a_release,
    an_addon,
    condition,
    decided,
    entry_of_a,
    reported,
)

OTHER = "docker-ferrol-1-27-v1"
GOING = {"deletionTimestamp": "x"}


def said(type_: str, status: str, reason: str = "x") -> Object:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": rfc3339(NOW)}


def entry(name: str, **more: str) -> InventoryEntry:
    return InventoryEntry("", "v1", "ConfigMap", "ns", name, **more)


# -- obstacles ---------------------------------------------------------------------------------------------------


WITH_SECRETS = [DeleteSecret, DeleteSecret, RemoveFinalizer]
"""A sync that was killed may have stored the Secrets before the status reports them."""


@pytest.mark.parametrize(
    ("metadata", "status", "effects"),
    [
        (GOING, {}, WITH_SECRETS),
        (GOING, {"digest": "d", "history": [{}]}, WITH_SECRETS),
        (GOING | {"finalizers": ["other"]}, {"digest": "d"}, []),
        ({}, {"digest": "d"}, []),
    ],
    ids=["nothing reported", "manifests and values", "finalizer of others", "not being deleted"],
)
def test_deleted_addon_takes_its_secrets_along(metadata: Object, status: Object, effects: list[type]) -> None:
    addon = an_addon(**status)
    addon["metadata"] |= metadata
    assert [type(effect) for effect in finalize(addon, None).effects] == effects


def test_addon_that_is_deleted_without_its_cluster_leaves_its_record() -> None:
    addon = an_addon(history=[{}])
    addon["metadata"] |= GOING
    kept = [KeepRecord, RemoveFinalizer]
    assert [type(effect) for effect in finalize(addon, a_cluster()).effects] == kept
    cluster = a_cluster()
    cluster["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert [type(effect) for effect in finalize(addon, cluster).effects] == WITH_SECRETS


@pytest.mark.parametrize(
    ("status", "ready"),
    [({"ready": True}, True), ({"ready": False}, False), ({"ready": True, "release": OTHER}, False)],
    ids=["ready", "not ready", "ready of another class"],
)
def test_paused_cluster_leaves_its_addons_as_ready_as_they_are(status: Object, ready: bool) -> None:
    decision = decided(None, an_addon(**status), a_cluster(paused=True))
    assert (decision.status or {})["ready"] is ready
    assert condition(decision, "ClusterReady")[:2] == ("False", "Paused")
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("Paused", "Normal")]


@pytest.mark.parametrize(
    ("spec", "words"),
    [({"topology": {"class": "other"}}, "class other does not belong"), ({"topology": {}}, "no class")],
)
def test_cluster_without_a_class_of_a_stack_is_reported(spec: Object, words: str) -> None:
    decision = decided(None, an_addon(release=None), a_cluster(**spec))
    assert words in condition(decision, "ClusterStackReleaseDownloaded")[2]
    assert ((decision.status or {})["ready"], decision.requeue_after) == (False, None)


@pytest.mark.parametrize(
    ("severity", "before", "events"),
    [("Info", "False", []), ("Info", "True", ["ControlPlaneNotReady"]), ("Error", "False", ["ControlPlaneNotReady"])],
    ids=["a new cluster", "a cluster that was reachable", "an error that stays"],
)
def test_unreachable_cluster_is_news_unless_it_is_new(severity: Any, before: str, events: list[str]) -> None:
    decision = decided(ConnectionFailed("no answer", severity), an_addon(said("ClusterReady", before)))
    found = get_condition((decision.status or {})["conditions"], "ClusterReady") or {}
    assert (found["status"], found["severity"], found["message"]) == ("False", severity, "no answer")
    assert [event.reason for event in decision.kubernetes_events] == events


@pytest.mark.parametrize(("failure", "severity", "events"), [("", "Info", 0), ("no such", "Error", 1)])
def test_only_a_failed_download_is_news(failure: str, severity: str, events: int) -> None:
    decision = decided(MissingAssets(TAG, failure))
    found = get_condition((decision.status or {})["conditions"], "ClusterStackReleaseDownloaded") or {}
    assert (found.get("severity"), len(decision.kubernetes_events)) == (severity, events)


def test_cluster_that_cannot_be_read_is_reported_unless_the_addon_is_being_deleted() -> None:
    failed = ConnectionFailed("no answer")
    decision = decide(Observed(an_addon(), None, finding=failed), NOW)
    assert condition(decision, "ClusterReady") == ("False", "ControlPlaneNotReady", "no answer")
    going = an_addon()
    going["metadata"] |= GOING
    assert [type(one) for one in decide(Observed(going, None, finding=failed), NOW).effects] == WITH_SECRETS
    assert decide(Observed(an_addon(), None), NOW).status is None


def test_wait_adds_the_finalizer_first() -> None:
    addon = an_addon()
    addon["metadata"]["finalizers"] = []
    [effect] = decided(MissingAssets(TAG), addon).effects
    assert isinstance(effect, Patch)
    assert effect.patch["metadata"]["finalizers"] == [ADDON_FINALIZER]


# -- another target ----------------------------------------------------------------------------------------------


def built(addon: Object, cluster: Object | None = None) -> Object:
    return AddonStatusBuilder.of(addon, cluster or a_cluster(), NOW).status()


def test_conditions_about_another_release_are_removed() -> None:
    conditions = [said("HelmChartApplied", "True"), said("ObjectsReady", "True"), said("ClusterReady", "True")]
    reported = built(an_addon(*conditions, release=OTHER))
    assert [each["type"] for each in reported["conditions"]] == ["ClusterReady", "Ready"]
    assert (reported["release"], reported["stages"], reported["drift"]) == (TAG, None, None)
    same = built(an_addon(*conditions))
    assert {each["type"] for each in same["conditions"]} == {each["type"] for each in conditions} | {"Ready"}
    assert "stages" not in same


def test_errors_of_another_release_are_removed_but_not_why_an_object_is_kept() -> None:
    entries = [entry("a", error="refused"), entry("b", status=KEPT, error="not ours")]
    reported = built(an_addon(release=OTHER, resources=dump(entries)))
    assert reported["resources"] == dump([replace(entries[0], error=""), entries[1]])
    assert "resources" not in built(an_addon(release=OTHER, resources=dump([entry("a")])))
    assert "resources" not in built(an_addon(resources=dump(entries)))


@pytest.mark.parametrize(
    ("annotated", "recorded", "is_new"),
    [("", None, False), (TAG, None, True), (TAG, TAG, False), ("", TAG, True), (OTHER, None, False)],
    ids=["none", "requested", "going on", "withdrawn", "from another class"],
)
def test_rollback_is_a_target_of_its_own(annotated: str, recorded: str | None, is_new: bool) -> None:
    addon = an_addon(rollbackFrom=recorded)
    addon["metadata"]["annotations"] = {ROLLBACK_ANNOTATION: annotated} if annotated else {}
    assert AddonStatusBuilder.of(addon, a_cluster(), NOW).is_new_target is is_new


def test_obstacle_that_is_gone_is_not_reported_any_more() -> None:
    addon = an_addon(said("EvaluatedCEL", "False"), said("HelmChartApplied", "False"), said("ClusterReady", "True"))
    assert [each["type"] for each in built(addon)["conditions"]] == ["HelmChartApplied", "ClusterReady", "Ready"]


# -- a sync ---------------------------------------------------------------------------------------------------


def events(decision: Decision, reason: str) -> list[tuple[str, str]]:
    return [(event.type, event.message) for event in decision.kubernetes_events if event.reason == reason]


def test_objects_that_others_own_are_reported() -> None:
    decision = reported(a_release(), {Sync: SyncOutcome(kept=tuple(entry(name) for name in "abcdef"))})
    [(type_, message)] = events(decision, "ObjectsKept")
    assert (type_, message.endswith("ConfigMap ns/d, ConfigMap ns/e")) == ("Normal", True)


def test_fields_that_others_own_are_reported() -> None:
    conflicts = [(entry(name), FieldConflict("kubectl", "data.k")) for name in "abcdef"]
    decision = reported(a_release(), {Sync: SyncOutcome(conflicts=conflicts)})
    [(type_, message)] = events(decision, "FieldConflicts")
    assert (type_, message.endswith("; ConfigMap ns/e: data.k (kubectl)")) == ("Normal", True)


@pytest.mark.parametrize(("count", "end"), [(1, "ns/0 (missing)"), (5, "ns/4 (missing)"), (6, "(missing); and 1 more")])
def test_drift_is_reported_once(count: int, end: str) -> None:
    outcome = SyncOutcome(drift=[Drift(entry(str(number))) for number in range(count)])
    [(type_, message)] = events(reported(a_release(), {Sync: outcome}), "DriftFound")
    assert (type_, message.endswith(end), message.count("missing")) == ("Warning", True, min(count, 5))
    known = a_release(an_addon(drift=outcome.listed_drift))
    assert events(reported(known, {Sync: outcome}), "DriftFound") == []


def test_a_rollout_without_findings_has_no_further_events() -> None:
    decision = reported(a_release(), {Sync: SyncOutcome(written=[entry("a")])})
    assert decision.kubernetes_events == ()


@pytest.mark.parametrize(
    ("seconds", "reason", "severity", "requeue_after", "type_"),
    [
        (0.0, "ObjectsApplyingOngoing", "Info", 5.0, "Normal"),
        (POLICY.wait_timeout, "ObjectsApplyingOngoing", "Info", 5.0, "Normal"),
        (POLICY.wait_timeout + 1, "ObjectsNotReady", "Warning", 60.0, "Warning"),
    ],
)
def test_wave_that_does_not_complete_is_reported_after_its_time(
    seconds: float, reason: str, severity: str, requeue_after: float, type_: str
) -> None:
    began = {**said("HelmChartApplied", "False"), "lastTransitionTime": rfc3339(NOW - timedelta(seconds=seconds))}
    waiting = SyncIncomplete(SyncOutcome((entry_of_a(waiting="is running"),)))
    decision = reported(a_release(an_addon(began)), error=waiting)
    found = get_condition((decision.status or {})["conditions"], "HelmChartApplied") or {}
    assert (found["reason"], found.get("severity"), decision.requeue_after) == (reason, severity, requeue_after)
    assert "is running" in found["message"]
    assert type_ in [event.type for event in decision.kubernetes_events]
    assert (decision.status or {})["resources"] == dump([entry_of_a(waiting="is running")])


def test_failed_objects_are_news() -> None:
    failure = SyncIncomplete(SyncOutcome((entry("a", error="refused"),)))
    decision = reported(a_release(), error=failure)
    assert "ConfigMap ns/a: refused" in condition(decision, "HelmChartApplied")[2]
    assert [(event.reason, event.type) for event in decision.kubernetes_events][-1:] == [
        ("FailedToApplyObjects", "Warning")
    ]
