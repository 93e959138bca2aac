"""Events that a function sends of its own accord."""

from __future__ import annotations

import pytest

from shared.event import REFERENCE, RESOURCE, change_event
from shared.runtime.emit import emit
from shared.triggers import Triggers
from tests.support.receiver import Receiver

TRIGGERS = Triggers("f", emits=(REFERENCE + "update",))
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}


def test_declared_events_go_to_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        answer = emit(TRIGGERS, [change_event(OBJECT, "update", source="/f", reference=True)], "sent")
    assert (answer.status, [event.key for _, event, _ in receiver.received]) == (204, [("n", "c")])


def test_an_event_that_is_not_declared_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where functions share an environment it would arrive, and in a cluster there would be no address for it."""
    with Receiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        with pytest.raises(ValueError, match=f"f does not declare that it emits {RESOURCE}update"):
            emit(TRIGGERS, [change_event(OBJECT, "update", source="/f")], "sent")
    assert receiver.received == []


def test_without_a_sink_the_event_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may be there before its SinkBinding is."""
    monkeypatch.delenv("K_SINK", raising=False)
    answer = emit(TRIGGERS, [], "sent")
    assert (answer.status, answer.message) == (503, "K_SINK is not set: it must be the URL to send events to")
