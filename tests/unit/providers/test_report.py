"""`provider_report`, in tables: the condition `ComponentsAvailable`, and resumed installations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.provider_report.decide import decide
from functions.provider_report.observe import Observed
from functions.provider_report.triggers import TRIGGERS, is_reconciled
from shared.api.conditions import get_condition
from shared.api.provider import CORE
from shared.event import Event, change_event
from shared.kube import Key, Object, dig
from shared.providers import phases
from shared.providers.status import in_progress
from tests.support.provider_objects import provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "Installing", True),
        ("False", "Upgrading", True),
        ("False", "WaitingForBackends", True),
        ("False", "InstallFailed", False),
        ("False", "ComponentsFetchError", False),
        ("True", "ProviderInstalled", False),
    ],
)
def test_installation_is_in_progress_by_its_reason(status: str, reason: str, expected: bool) -> None:
    assert (
        in_progress(provider(conditions=[{"type": "ProviderInstalled", "status": status, "reason": reason}]))
        is expected
    )


def test_installation_without_condition_is_not_in_progress() -> None:
    assert not in_progress(provider())


def test_ready_workload_resumes_the_installation() -> None:
    decision = decide(Observed(provider(), resumable=True), NOW)
    assert decision.reply is not None
    assert decision.reply.type == phases.event_type(phases.FETCHED)
    assert decision.status is None


def test_nothing_is_reported_before_the_first_installation() -> None:
    decision = decide(Observed(provider()), NOW)
    assert (decision.reply, decision.status, decision.requeue_after) == (None, None, None)


@pytest.mark.parametrize(
    ("found", "status", "reason", "again"),
    [
        ({}, "True", "ComponentsAvailable", False),
        ({"missing": ["Deployment a/b"]}, "False", "WorkloadsMissing", True),
        ({"unavailable": ["Deployment a/b: x"]}, "False", "WorkloadsUnavailable", False),
        ({"unanswered": ["Webhook a: x"]}, "False", "WebhooksNotAnswering", False),
        ({"unserved": ["as.x.io"]}, "False", "KindsNotServed", False),
        ({"wait": False}, "True", "NotAwaited", False),
    ],
)
def test_first_problem_becomes_the_condition(found: Object, status: str, reason: str, again: bool) -> None:
    decision = decide(Observed(provider(installed="v1.0.0"), installed=True, **found), NOW)
    condition = get_condition(dig(decision.status, "conditions"), "ComponentsAvailable") or {}
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert (decision.reply is not None) is again
    assert (decision.requeue_after is not None) is (status == "False")


READY = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}
RUNNING = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1, "observedGeneration": 1}
OWNER = {"apiVersion": CORE.resource.api_version, "kind": "CoreProvider", "name": "cluster-api", "uid": "1"}


def workload(kind: str = "Deployment", status: Object | None = None, **metadata: Any) -> Object:
    """Returns a workload of the core provider, ready unless another status is given."""
    ready = READY if kind == "Deployment" else RUNNING
    about = {"name": "manager", "namespace": "capi-system", "generation": 1, "ownerReferences": [OWNER], **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": about, "status": {**ready, **(status or {})}}


@pytest.mark.parametrize(
    ("kind", "before", "after", "matters"),
    [
        ("Deployment", {"availableReplicas": 0}, {}, True),
        ("Deployment", {"updatedReplicas": 0}, {}, True),
        ("Deployment", {"observedGeneration": 0}, {}, True),
        ("Deployment", {}, {"availableReplicas": 0}, True),
        ("Deployment", {"updatedReplicas": 0}, {"availableReplicas": 0}, False),
        ("Deployment", {}, {"unavailableReplicas": 1, "conditions": [{"type": "Progressing"}]}, False),
        ("DaemonSet", {"numberAvailable": 0}, {}, True),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2}, True),
        ("DaemonSet", {}, {"currentNumberScheduled": 1, "numberMisscheduled": 1}, False),
    ],
)
def test_workload_that_becomes_ready_or_ceases_to_be_starts_the_function(
    kind: str, before: Object, after: Object, matters: bool
) -> None:
    [watch] = [watch for watch in TRIGGERS.watches if watch.resource.kind == kind]
    assert (watch.relevant(workload(kind, before)) != watch.relevant(workload(kind, after))) is matters


@pytest.mark.parametrize(
    ("status", "key"), [({}, Key("capi-system", "cluster-api")), ({"observedGeneration": None}, None)]
)
def test_new_workload_starts_the_function_once_its_controller_has_seen_it(status: Object, key: Key | None) -> None:
    assert TRIGGERS.key(change_event(workload(status=status), "add", source="/test")) == key


BROKEN, GOING = {"availableReplicas": 0}, {"deletionTimestamp": "2027-01-01T00:00:00Z"}
INSTALLING = {"type": "ProviderInstalled", "status": "False", "reason": "Installing"}
AVAILABLE, UNAVAILABLE, UNKNOWN = (
    {"type": "ComponentsAvailable", "status": status} for status in ("True", "False", "Unknown")
)


@pytest.mark.parametrize(
    ("conditions", "event", "expected"),
    [
        ([AVAILABLE], change_event(workload(), "update", source="/test"), True),
        ([AVAILABLE], change_event(workload(), "add", source="/test"), True),
        ([AVAILABLE], change_event(workload(status=BROKEN), "update", source="/test"), False),
        ([AVAILABLE], change_event(workload(**GOING), "update", source="/test"), False),
        ([AVAILABLE], change_event(workload(), "delete", source="/test"), False),
        ([AVAILABLE], change_event(workload(), "update", source="/test", reference=True), False),
        ([AVAILABLE], phases.completion_event(phases.INSTALLED, provider(), resync=False), False),
        ([UNAVAILABLE], change_event(workload(), "update", source="/test"), False),
        ([UNAVAILABLE], change_event(workload(status=BROKEN), "update", source="/test"), False),
        ([], change_event(workload(), "update", source="/test"), False),
        ([INSTALLING, AVAILABLE], change_event(workload(), "update", source="/test"), False),
        ([INSTALLING, AVAILABLE], change_event(workload(status=BROKEN), "update", source="/test"), True),
        ([UNKNOWN], change_event(workload(), "update", source="/test"), False),
        ([UNKNOWN], change_event(workload(status=BROKEN), "update", source="/test"), True),
        ([UNAVAILABLE], change_event(provider(), "add", source="/sweep"), True),
    ],
)
def test_status_says_already_what_a_workload_shows(conditions: list[Object], event: Event, expected: bool) -> None:
    assert is_reconciled(provider(installed="v1.0.0", conditions=conditions), event, NOW) is expected


def test_workloads_of_a_provider_that_is_being_deleted_are_not_reported() -> None:
    changed = change_event(workload(status=BROKEN), "update", source="/test")
    assert is_reconciled(provider(metadata=GOING), changed, NOW)


def test_progress_of_workloads_records_no_further_event() -> None:
    first = decide(Observed(provider(installed="v1.0.0"), installed=True, unavailable=["Deployment a/b: x"]), NOW)
    assert [event.reason for event in first.kubernetes_events] == ["WorkloadsUnavailable"]
    reported = provider(installed="v1.0.0", conditions=dig(first.status, "conditions"))
    second = decide(Observed(reported, installed=True, unavailable=["Deployment a/b: y"]), NOW)
    assert second.kubernetes_events == ()
    assert "a/b: y" in str(second.status)


@pytest.mark.parametrize(
    ("before", "reasons"),
    [
        ([], []),
        ([{**UNKNOWN, "reason": "x"}], []),
        ([{**AVAILABLE, "reason": "x"}], []),
        ([{**UNAVAILABLE, "reason": "x"}], ["ComponentsAvailable"]),
    ],
)
def test_components_that_work_again_have_an_event(before: list[Object], reasons: list[str]) -> None:
    decision = decide(Observed(provider(installed="v1.0.0", conditions=before), installed=True), NOW)
    assert [event.reason for event in decision.kubernetes_events] == reasons
