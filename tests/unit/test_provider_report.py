"""What follows from a workload's change: a condition, or that an installation which is under way goes on."""

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
from tests.support.providers_made import provider

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
def test_under_way(status: str, reason: str, expected: bool) -> None:
    assert (
        in_progress(provider(conditions=[{"type": "ProviderInstalled", "status": status, "reason": reason}]))
        is expected
    )


def test_not_begun_is_not_under_way() -> None:
    assert not in_progress(provider())


def test_an_installation_goes_on_once_a_workload_runs() -> None:
    decision = decide(Observed(provider(), resumable=True), NOW)
    assert decision.reply is not None
    assert decision.reply.type == phases.event_type(phases.FETCHED)
    assert decision.status is None


def test_nothing_is_said_before_something_is_installed() -> None:
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
def test_what_does_not_work_is_told(found: Object, status: str, reason: str, again: bool) -> None:
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
def test_changes_that_reach_it(kind: str, status: Object, matters: bool) -> None:
    [watch] = [watch for watch in TRIGGERS.watches if watch.resource.kind == kind]
    assert (watch.relevant({"status": {}}) != watch.relevant({"status": status})) is matters
