"""`emit`: sends declared events to K_SINK."""

from __future__ import annotations

import pytest

from shared.event import REFERENCE, RESOURCE, change_event
from shared.runtime.emit import emit
from shared.triggers import Triggers
from tests.support.event_receiver import EventReceiver

TRIGGERS = Triggers("f", emits=(REFERENCE + "update",))
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}


def test_emit_posts_declared_events_to_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        answer = emit(TRIGGERS, [change_event(OBJECT, "update", source="/f", reference=True)], "sent")
    assert (answer.status, [event.key for _, event, _ in receiver.received]) == (204, [("n", "c")])


def test_emit_raises_for_an_undeclared_event_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster it would be lost: there is no Trigger for it."""
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        with pytest.raises(ValueError, match=f"f does not declare that it emits {RESOURCE}update"):
            emit(TRIGGERS, [change_event(OBJECT, "update", source="/f")], "sent")
    assert receiver.received == []


def test_emit_without_a_sink_answers_503_so_that_the_event_is_redelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may start before its SinkBinding sets K_SINK."""
    monkeypatch.delenv("K_SINK", raising=False)
    answer = emit(TRIGGERS, [], "sent")
    assert (answer.status, answer.message) == (503, "K_SINK is not set: it must be the URL to send events to")
