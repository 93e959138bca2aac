"""Conditions while a decision is made: what an API server would not take is not handed to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.api.conditions import MAX_MESSAGE, get_condition
from shared.kube import Object
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.function import new_events
from shared.runtime.status import StatusBuilder, V1Beta1StatusBuilder

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", [StatusBuilder, V1Beta1StatusBuilder])
@pytest.mark.parametrize(("length", "ends"), [(MAX_MESSAGE, "x"), (MAX_MESSAGE + 1, "…")])
def test_messages_have_an_end(kind: type[StatusBuilder], length: int, ends: str) -> None:
    builder = kind({}, NOW)
    builder.set_false("Done", "TooMuch", "x" * length, event_type="Warning")
    told = get_condition(builder.status()["conditions"], "Done") or {}
    assert len(told["message"]) == MAX_MESSAGE
    assert told["message"].endswith(ends)
    assert [event.message for event in builder.kubernetes_events] == [told["message"]]


def broken(message: str) -> Object:
    condition = {"type": "Done", "status": "False", "reason": "Broken", "message": message}
    return {"status": {"conditions": [{**condition, "lastTransitionTime": "2026-12-31T00:00:00Z"}]}}


@pytest.mark.parametrize("kind", [StatusBuilder, V1Beta1StatusBuilder])
@pytest.mark.parametrize(
    ("reason", "message", "progress", "told"),
    [
        ("Broken", "the disk is full", False, False),
        ("Broken", "the disk is gone", False, True),
        ("Broken", "the disk is gone", True, False),
        ("Worse", "the disk is full", True, True),
    ],
)
def test_another_cause_for_the_same_reason_is_an_event(
    kind: type[StatusBuilder], reason: str, message: str, progress: bool, told: bool
) -> None:
    builder = kind(broken("the disk is full"), NOW)
    builder.set_false("Done", reason, message, event_type="Warning", progress=progress)
    assert [event.message for event in builder.kubernetes_events] == ([message] if told else [])


@pytest.mark.parametrize(("before", "told"), [("no such name: …", False), ("no such file: …", True)])
def test_an_event_of_a_condition_is_compared_as_it_is_written(before: str, told: bool) -> None:
    """The condition has a value withheld, which the decision did not know when it was made."""
    after = broken("no such name: …")
    kubernetes_events = (
        KubernetesEvent("Broken", "no such name: …", "Warning", "Done"),
        KubernetesEvent("Seen", "there"),
    )
    decision = Decision(status=after["status"], kubernetes_events=kubernetes_events)
    assert new_events(decision, broken(before)) == (kubernetes_events if told else kubernetes_events[1:])
