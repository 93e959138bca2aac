"""The queue against a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from events.queue import DONE, DeliveryResult, QueueItem, TokenBucket, WorkQueue, backoff, is_news, merge
from shared.event import Change, Event, change_event, own_event
from shared.kube import Key

ONE, TWO = Key("default", "one"), Key("default", "two")
FAILED = DeliveryResult("failed")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def event(version: int = 1, name: str = "one", kind: str = "ConfigMap", change: Change = "update") -> Event:
    metadata = {"namespace": "default", "name": name, "resourceVersion": str(version)}
    return change_event({"apiVersion": "v1", "kind": kind, "metadata": metadata}, change, source="test")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue:
    return WorkQueue(clock=clock, jitter=lambda _low, high: high)  # the longest back-off each time


def take(queue: WorkQueue) -> QueueItem:
    item = queue.take(0)
    assert item is not None
    return item


def test_first_come_first_served(queue: WorkQueue) -> None:
    for function, key in (("f", ONE), ("f", TWO), ("g", ONE)):
        queue.add(function, key, event())
    assert [(item.function, item.key) for item in (take(queue), take(queue), take(queue))] == [
        ("f", ONE),
        ("f", TWO),
        ("g", ONE),
    ]
    assert queue.take(0) is None


def test_what_has_begun_goes_on_before_anything_else_begins(queue: WorkQueue) -> None:
    queue.add("f", ONE, event())
    queue.add("f", TWO, event())
    queue.add("next", ONE, event(), first=True)
    assert [item.function for item in (take(queue), take(queue), take(queue))] == ["next", "f", "f"]


def test_newer_event_takes_the_place_of_the_waiting_one(queue: WorkQueue) -> None:
    queue.add("f", ONE, event(1))
    queue.add("f", TWO, event(5, "two"))
    queue.add("f", ONE, newest := event(2))
    assert take(queue).event == newest
    assert queue.coalesced == 1
    assert take(queue).key == TWO
    assert queue.take(0) is None


RESYNC = replace(event(1), resync=True)
MERGES = [
    ("same object", event(1), event(2), False),
    ("a resync waits", RESYNC, event(2), True),
    ("a resync comes", event(2), RESYNC, True),
    ("another kind, so each may hide the other", event(1, kind="Secret"), event(2), True),
    ("another object of the kind", event(1, name="two"), event(2), True),
    ("another change of the object", event(1, change="add"), event(1, change="delete"), False),
]


@pytest.mark.parametrize(("waiting", "newer", "full"), [case[1:] for case in MERGES], ids=[case[0] for case in MERGES])
def test_merge(waiting: Event, newer: Event, full: bool) -> None:
    merged = merge(waiting, newer)
    assert merged.resync == full
    assert replace(merged, resync=False) == replace(newer, resync=False)


WANTED = own_event("release.wanted", source="a", subject="r1", data={})
NEWS = [
    ("newer version", event(1), event(2), True),
    ("same version again", event(1), event(1), False),
    ("same version, other change", event(1), event(1, change="delete"), True),
    ("resync of another version", event(1), replace(event(2), resync=True), False),
    ("the very same next step", WANTED, WANTED, False),
    ("a next step asked for again", WANTED, replace(WANTED, id="other"), True),
]


@pytest.mark.parametrize(("waiting", "newer", "news"), [case[1:] for case in NEWS], ids=[case[0] for case in NEWS])
def test_is_news(waiting: Event, newer: Event, news: bool) -> None:
    assert is_news(waiting, newer) == news


def test_change_during_delivery_is_delivered_afterwards(queue: WorkQueue) -> None:
    queue.add("f", ONE, event(1))
    item = take(queue)
    queue.add("f", ONE, event(2))
    queue.add("f", ONE, last := event(3))
    assert queue.take(0) is None, "one in flight per key"
    queue.finish(item, DONE)
    assert take(queue).event == last
    assert queue.pending().in_flight == 1


def test_requeue_comes_after_its_time_and_asks_for_a_full_look(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DeliveryResult("requeue", 30))
    clock.now += 29.9
    assert queue.take(0) is None
    clock.now += 0.1
    assert take(queue).event.resync


def test_event_ends_a_requeue_at_once_and_the_old_time_is_forgotten(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DeliveryResult("requeue", 30))
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DONE)
    clock.now += 60
    assert queue.take(0) is None
    assert queue.is_idle()


def test_backoff_grows_and_success_resets_it(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    waits = []
    for _ in range(11):
        queue.finish(item := take(queue), FAILED)
        waits.append(round(item.wait, 3))
        clock.now += item.wait
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60]
    queue.finish(take(queue), DeliveryResult("requeue", 1))
    clock.now += 1
    queue.finish(item := take(queue), FAILED)
    assert item.wait == pytest.approx(0.2)


def test_backoff_is_fully_jittered() -> None:
    waits = [backoff(5) for _ in range(1000)]
    assert min(waits) < 0.4
    assert 2.8 < max(waits) <= 3.2


@pytest.mark.parametrize(
    ("again", "at_once"),
    [(event(1), False), (replace(event(2), resync=True), False), (event(2), True)],
    ids=["same change", "resync", "news"],
)
def test_only_news_ends_a_backoff(queue: WorkQueue, clock: Clock, again: Event, at_once: bool) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), FAILED)
    queue.add("f", ONE, again)
    assert (queue.take(0) is not None) == at_once
    clock.now += 0.2
    assert (queue.take(0) is not None) != at_once


def test_retry_after_is_honoured(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DeliveryResult("failed", 7))
    clock.now += 6.9
    assert queue.take(0) is None
    clock.now += 0.1
    assert take(queue).failures == 1


def test_change_during_a_failed_delivery_waits_for_the_backoff_only(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    item = take(queue)
    queue.add("f", ONE, event(2))
    queue.finish(item, DeliveryResult("failed", 60))
    assert queue.take(0) is None
    clock.now += 0.2
    assert take(queue).event.resync


def test_add_after(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after("f", ONE, event(), 5)
    assert queue.take(0) is None
    clock.now += 5
    assert take(queue).key == ONE


@pytest.mark.parametrize(("below", "idle"), [(5, True), (30, False)])
def test_settled_leaves_out_the_longer_waits(queue: WorkQueue, clock: Clock, below: float, idle: bool) -> None:
    queue.add("f", ONE, event())
    assert not queue.is_idle(below)
    item = take(queue)
    assert not queue.is_idle(below)
    queue.finish(item, DeliveryResult("requeue", 30))
    clock.now += 29
    assert queue.is_idle(below) == idle


def test_rate_is_limited_by_a_token_bucket(clock: Clock) -> None:
    bucket = TokenBucket(rate=10, burst=2)
    assert [bucket.wait(clock.now) for _ in range(3)] == [0, 0, pytest.approx(0.1)]
    clock.now += 0.11
    assert bucket.wait(clock.now) == 0
    clock.now += 60
    assert [bucket.wait(clock.now) for _ in range(3)] == [0, 0, pytest.approx(0.1)]


def test_close_ends_take() -> None:
    queue = WorkQueue()
    queue.close()
    assert queue.take() is None
