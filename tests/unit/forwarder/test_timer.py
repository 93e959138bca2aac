"""The timer, alone and in a forwarder."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

from events.forwarder import Forwarder
from events.timer import Timer
from functions.release_prune.triggers import TRIGGERS
from shared.event import PING, Event
from shared.kube import Client
from shared.kube.credentials import Credentials
from shared.runtime import Answer


def test_timer_repeats_its_event_even_after_a_failure() -> None:
    taken: queue.Queue[Event] = queue.Queue()

    def submit(event: Event) -> None:
        taken.put(event)
        if taken.qsize() == 1:
            raise RuntimeError("no sink")

    timer = Timer(submit, every=0.01)
    timer.start()
    try:
        events = [taken.get(timeout=60) for _ in range(3)]
    finally:
        timer.stop()
    assert {(event.type, event.data["everything"]) for event in events} == {(PING, True)}
    assert len({event.id for event in events}) == 3
    assert not timer._thread.is_alive()


def _forwarder(deliver: Callable[[str, Event], Answer], **options: Any) -> Forwarder:
    return Forwarder(Client(Credentials("http://127.0.0.1:1")), {"release_prune": TRIGGERS}, deliver, **options)


def test_forwarder_delivers_timer_events_to_functions_with_a_ping_subscription() -> None:
    called: queue.Queue[tuple[str, Event]] = queue.Queue()

    def deliver(function: str, event: Event) -> Answer:
        called.put((function, event))
        return Answer(204)

    forwarder = _forwarder(deliver, timer=0.01)
    forwarder.start()
    try:
        function, event = called.get(timeout=60)
    finally:
        forwarder.stop()
    assert (function, TRIGGERS.key(event) is not None) == ("release_prune", True)


def test_forwarder_to_a_sink_has_no_timer() -> None:
    called: queue.Queue[str] = queue.Queue()
    forwarder = _forwarder(lambda function, _: called.put(function) or Answer(204), to_sink=True, timer=0.01)  # type: ignore[func-returns-value]
    forwarder.start()
    try:
        with pytest.raises(queue.Empty):
            called.get(timeout=0.3)
    finally:
        forwarder.stop()
