"""The dispatcher, with real threads; functions are plain calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from events.delivery import Deliver, InProcessDelivery
from events.dispatcher import Dispatcher, delivery_result
from events.queue import DONE, DeliveryResult, Pending
from events.replay import replay
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.event import Event, EventError, change_event, own_event
from shared.kube import Key, key_of
from shared.runtime.answer import Answer
from shared.triggers import Subscription, Triggers, Watch
from tests.support.until import until

WANTED = "dev.capi-functions.wanted"
LONG = 60.0
"""Seconds until a test fails for something that does not happen."""


def only_ours(obj: Mapping[str, Any]) -> Key | None:
    return key_of(obj) if key_of(obj).name.startswith("ours") else None


def broken(_obj: Mapping[str, Any]) -> Key | None:
    raise TypeError("no such field")


TRIGGERS = {
    "all": Triggers("all", (Watch(CONFIG_MAP),)),
    "ours": Triggers("ours", (Watch(CONFIG_MAP, key=only_ours),)),
    "broken": Triggers("broken", (Watch(CONFIG_MAP, key=broken),)),
    "steps": Triggers("steps", subscriptions=(Subscription(WANTED, lambda event: Key("", event.subject)),)),
}


def changed(name: str = "one", version: int = 1) -> Event:
    metadata = {"namespace": "default", "name": name, "resourceVersion": str(version)}
    return change_event({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, "update", source="test")


@contextmanager
def dispatching(deliver: Deliver, **options: Any) -> Iterator[Dispatcher]:
    dispatcher = Dispatcher(TRIGGERS, deliver, **options)
    try:
        yield dispatcher
    finally:
        dispatcher.stop()


class Calls:
    """Keeps what is delivered and answers from a script, the last answer for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.calls: list[tuple[str, Event]] = []
        self.times: list[float] = []
        self._answers = list(answers) or [Answer(204)]

    def __call__(self, function: str, event: Event) -> Answer:
        self.calls.append((function, event))
        self.times.append(time.monotonic())
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def functions(self) -> list[str]:
        return [function for function, _ in self.calls]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(204), DONE),
        (Answer(200), DONE),
        (Answer(202), DONE),
        (Answer(202, retry_after=3), DeliveryResult("requeue", 3)),
        (Answer(503, retry_after=2), DeliveryResult("failed", 2)),
        *[(Answer(status), DeliveryResult("failed")) for status in (301, 401, 403, 404, 408, 409, 429, 500, 502, 503)],
        *[(Answer(status), DONE) for status in (400, 405, 413, 422)],
    ],
)
def test_answer_status_determines_the_delivery_result(answer: Answer, expected: DeliveryResult) -> None:
    assert delivery_result(answer) == expected


def test_refused_sender_is_reported_once_and_delivers_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(*[Answer(401, "no token")] * 2, Answer(403), Answer(204))
    with dispatching(calls) as dispatcher:
        dispatcher.submit(changed("theirs"))
        assert dispatcher.drain(LONG)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["all refuses this sender with 401; ConfigMap default/theirs is delivered again: no token"]
    assert len(calls.calls) == 4


def test_event_goes_to_functions_that_declare_it_even_if_another_mapping_fails() -> None:
    with dispatching(calls := Calls()) as dispatcher:
        assert dispatcher.submit(changed("theirs")) == 1
        assert dispatcher.submit(changed("ours-1")) == 2
        assert dispatcher.submit(changed("ours-2"), ["ours"]) == 1
        assert dispatcher.drain(LONG)
    assert sorted(calls.functions) == ["all", "all", "ours", "ours"]


def test_reply_is_delivered_to_its_subscribers() -> None:
    reply = own_event("wanted", source="all", subject="release-1", data={"release": "1"})

    def deliver(function: str, event: Event) -> Answer:
        seen.append((function, event.type))
        return Answer(200, reply=reply) if function == "all" else Answer(204)

    seen: list[tuple[str, str]] = []
    with dispatching(deliver) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG)
    assert seen == [("all", changed().type), ("steps", WANTED)]


def test_burst_is_coalesced_with_one_call_in_flight_per_key() -> None:
    """The first call for each key waits until the burst is queued, so that no count depends on speed."""
    names = ("a", "b", "c")
    calls: list[tuple[str, str]] = []
    held, go = threading.Barrier(len(names) + 1), threading.Event()

    def deliver(_function: str, event: Event) -> Answer:
        version = event.data["metadata"]["resourceVersion"]
        calls.append((event.name, version))
        if version == "0":
            held.wait(LONG)
            go.wait(LONG)
        return Answer(204)

    with dispatching(deliver, workers=2 * len(names)) as dispatcher:
        for name in names:
            dispatcher.submit(changed(name, 0))
        held.wait(LONG)
        for version in range(1, 200):
            for name in names:
                dispatcher.submit(changed(name, version))
        assert dispatcher.pending() == Pending(in_flight=3), "workers are free, but each key has its call in flight"
        go.set()
        assert dispatcher.drain(LONG)
        stats = dispatcher.stats
    assert sorted(calls) == [(name, version) for name in names for version in ("0", "199")]
    assert (stats.delivered, stats.coalesced) == (6, 3 * 199)


def test_rejected_event_becomes_a_dead_letter() -> None:
    dead: list[tuple[str, int]] = []
    with dispatching(
        calls := Calls(Answer(400, "no")),
        on_dead_letter=lambda function, _event, answer: dead.append((function, answer.status)),
    ) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG)
        assert dispatcher.pending() == Pending(), "a rejected event is not requeued"
        assert dispatcher.stats.dead_letters == 1
    assert len(calls.calls) == 1
    assert dead == [("all", 400)]


def test_failed_delivery_is_retried_as_a_resync() -> None:
    statuses: list[int] = []
    with dispatching(
        calls := Calls(Answer(500), Answer(409), Answer(204)),
        on_delivery=lambda _f, _e, answer, _s: statuses.append(answer.status),
    ) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG)
        assert dispatcher.stats.by_status == {500: 1, 409: 1, 204: 1}
    assert statuses == [500, 409, 204]
    assert [event.resync for _, event in calls.calls] == [False, True, True]


def test_dispatcher_waits_for_retry_after() -> None:
    calls = Calls(Answer(202, retry_after=0.3), Answer(503, retry_after=0.2), Answer(204))
    with dispatching(calls) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG)
    first, second, third = calls.times
    assert second - first >= 0.3
    assert third - second >= 0.2


def test_drain_ignores_waits_above_its_limit() -> None:
    with dispatching(Calls(Answer(202, retry_after=3600))) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG, ignore_waits_above=1800)
        assert dispatcher.pending() == Pending(waiting=1)
        assert not dispatcher.drain(0.05)


def test_drain_delivers_again_what_is_not_dropped() -> None:
    """An event that fails for ever would keep a stopping forwarder until its time is over."""
    answers = {"theirs": [503] * 1000, "ours-1": [503, 503, 204]}
    calls: list[str] = []

    def deliver(function: str, event: Event) -> Answer:
        calls.append(event.name)
        return Answer(answers[event.name].pop(0)) if function == "all" else Answer(204)

    with dispatching(deliver) as dispatcher:
        for name in answers:
            dispatcher.submit(changed(name), ["all"])
        until(lambda: len(answers["theirs"]) < 998)
        assert dispatcher.drain(LONG, dropped=lambda event: event.name == "theirs")
        assert dispatcher.pending() == Pending()
        assert calls.count("ours-1") == 3


def test_exceptions_in_hooks_and_deliveries_lose_no_event() -> None:
    def deliver(_function: str, _event: Event) -> Answer:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("bug")
        return Answer(204)

    def hook(*_: object) -> None:
        raise RuntimeError("bug in the hook")

    attempts: list[int] = []
    with dispatching(deliver, on_delivery=hook) as dispatcher:
        dispatcher.submit(changed())
        assert dispatcher.drain(LONG)
        assert dispatcher.stats.by_status == {500: 1, 204: 1}


def test_in_process_delivery_answers_exceptions_with_400_and_500() -> None:
    def refuses(_clients: Clients, _event: Event) -> Answer:
        raise EventError("not mine")

    def fails(_clients: Clients, _event: Event) -> Answer:
        raise KeyError("spec")

    handlers: dict[str, Callable[[Clients, Event], Answer]] = {"refuses": refuses, "fails": fails}
    deliver = InProcessDelivery(handlers.__getitem__, Clients())
    assert [deliver(name, changed()).status for name in ("refuses", "fails", "missing")] == [400, 500, 500]


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 5), ({"double": True}, 10), ({"shuffle_seed": 7}, 5), ({"pace": 0.001}, 5)],
    ids=["in order", "double", "shuffled", "paced"],
)
def test_replay_submits_events_in_the_requested_order(options: dict[str, Any], count: int) -> None:
    with dispatching(calls := Calls()) as dispatcher:
        assert replay([changed(f"o{number}") for number in range(5)], dispatcher, **options)
    names = [event.name for _, event in calls.calls]
    assert len(names) == count
    if not options:
        assert names == ["o0", "o1", "o2", "o3", "o4"]


def test_replay_returns_false_while_an_event_keeps_failing() -> None:
    with dispatching(Calls(Answer(503, retry_after=0.1))) as dispatcher:
        assert not replay([changed()], dispatcher, timeout=0.5, ignore_waits_above=1)


def test_dispatcher_that_was_stopped_counts_as_healthy() -> None:
    """The thread that renews the Lease runs on while a process ends: the end is no failure."""
    with dispatching(Calls()) as dispatcher:
        assert dispatcher.has_workers
        dispatcher.stop()
        assert dispatcher.has_workers
