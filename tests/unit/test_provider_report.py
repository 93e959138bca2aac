"""`provider_report`, in tables: the condition `ComponentsAvailable`, and resumed installations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from functions.provider_report.decide import decide
from functions.provider_report.observe import Observed
from functions.provider_report.triggers import TRIGGERS
from shared.api.conditions import get_condition
from shared.kube import Object, dig
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


@pytest.mark.parametrize(
    ("kind", "status", "matters"),
    [
        ("Deployment", {"availableReplicas": 1}, True),
        ("Deployment", {"updatedReplicas": 1}, True),
        ("Deployment", {"observedGeneration": 2}, True),
        ("Deployment", {"replicas": 2}, True),
        ("Deployment", {"unavailableReplicas": 1, "conditions": [{"type": "Progressing"}]}, False),
        ("DaemonSet", {"numberAvailable": 1}, True),
        ("DaemonSet", {"desiredNumberScheduled": 1}, True),
        ("DaemonSet", {"currentNumberScheduled": 1, "numberMisscheduled": 1}, False),
    ],
)
def test_workload_changes_that_start_the_function(kind: str, status: Object, matters: bool) -> None:
    [watch] = [watch for watch in TRIGGERS.watches if watch.resource.kind == kind]
    assert (watch.relevant({"status": {}}) != watch.relevant({"status": status})) is matters
