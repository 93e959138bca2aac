# mypy: enable-error-code="arg-type"
"""StatusBuilder: length of messages, and which conditions become Kubernetes events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from shared.api.conditions import MAX_MESSAGE, get_condition
from shared.kube import Object
from shared.runtime import Decision, KubernetesEvent
from shared.runtime.status import StatusBuilder, V1Beta1StatusBuilder

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", [StatusBuilder, V1Beta1StatusBuilder])
@pytest.mark.parametrize(("length", "ends"), [(MAX_MESSAGE, "x"), (MAX_MESSAGE + 1, "…")])
def test_long_message_is_shortened_in_condition_and_event(
    kind: type[StatusBuilder[str]], length: int, ends: str
) -> None:
    builder = kind({}, NOW)
    builder.set_false("Done", "TooMuch", "x" * length, event_type="Warning")
    condition = get_condition(builder.status()["conditions"], "Done") or {}
    assert len(condition["message"]) == MAX_MESSAGE
    assert condition["message"].endswith(ends)
    assert [event.message for event in builder.kubernetes_events] == [condition["message"]]


def broken(message: str) -> Object:
    condition = {"type": "Done", "status": "False", "reason": "Broken", "message": message}
    return {"status": {"conditions": [{**condition, "lastTransitionTime": "2026-12-31T00:00:00Z"}]}}


@pytest.mark.parametrize("kind", [StatusBuilder, V1Beta1StatusBuilder])
@pytest.mark.parametrize(
    ("reason", "message", "progress", "recorded"),
    [
        ("Broken", "the disk is full", False, False),
        ("Broken", "the disk is gone", False, True),
        ("Broken", "the disk is gone", True, False),
        ("Worse", "the disk is full", True, True),
    ],
)
def test_changed_reason_or_message_adds_an_event(
    kind: type[StatusBuilder[str]], reason: str, message: str, progress: bool, recorded: bool
) -> None:
    builder = kind(broken("the disk is full"), NOW)
    builder.set_false("Done", reason, message, event_type="Warning", progress=progress)
    assert [event.message for event in builder.kubernetes_events] == ([message] if recorded else [])


@pytest.mark.parametrize(("before", "recorded"), [("no such name: …", False), ("no such file: …", True)])
def test_event_of_an_unchanged_condition_is_left_out_after_redaction(before: str, recorded: bool) -> None:
    """A value was redacted from the condition after the decision was made."""
    after = broken("no such name: …")
    kubernetes_events = (
        KubernetesEvent("Broken", "no such name: …", "Warning", "Done"),
        KubernetesEvent("Seen", "there"),
    )
    decision = Decision(status=after["status"], kubernetes_events=kubernetes_events)
    assert decision.new_events(broken(before)) == (kubernetes_events if recorded else kubernetes_events[1:])


@pytest.mark.parametrize("kind", [StatusBuilder, V1Beta1StatusBuilder])
def test_decision_has_the_status_and_events_that_were_built(kind: type[StatusBuilder[str]]) -> None:
    builder = kind({}, NOW)
    builder.set_false("Done", "Broken", "the disk is full", event_type="Warning")
    expected = Decision(
        status=builder.status(resources=["a"]),
        kubernetes_events=(KubernetesEvent("Broken", "the disk is full", "Warning", "Done"),),
        requeue_after=3.0,
        message="waits",
    )
    assert builder.decision(resources=["a"], requeue_after=3.0, message="waits") == expected


def test_type_checker_refuses_a_condition_that_is_not_declared() -> None:
    """Without the error the comment would be unused, which is an error itself."""
    StatusBuilder[Literal["Done"]]({}, NOW).set_true("Gone")  # type: ignore[arg-type]
