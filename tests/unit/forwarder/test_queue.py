"""The work queue, with a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from events.queue import (
    DONE,
    DeliveryResult,
    Pending,
    QueueItem,
    TokenBucket,
    WorkQueue,
    backoff,
    change_of,
    is_news,
    merge,
)
from shared.api.resources import CONFIG_MAP
from shared.event import Change, Event, change_event, own_event
from shared.kube import Key
from shared.triggers import PrimaryRef

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


def test_items_are_taken_in_order(queue: WorkQueue) -> None:
    for function, key in (("f", ONE), ("f", TWO), ("g", ONE)):
        queue.add(function, key, event())
    assert [(item.function, item.key) for item in (take(queue), take(queue), take(queue))] == [
        ("f", ONE),
        ("f", TWO),
        ("g", ONE),
    ]
    assert queue.take(0) is None


def test_item_added_first_is_taken_next(queue: WorkQueue) -> None:
    queue.add("f", ONE, event())
    queue.add("f", TWO, event())
    queue.add("next", ONE, event(), first=True)
    assert [item.function for item in (take(queue), take(queue), take(queue))] == ["next", "f", "f"]


def test_newer_event_replaces_the_waiting_one(queue: WorkQueue) -> None:
    queue.add("f", ONE, event(1))
    queue.add("f", TWO, event(5, "two"))
    queue.add("f", ONE, newest := event(2))
    assert take(queue).event == newest
    assert queue.coalesced == 1
    assert take(queue).key == TWO
    assert queue.take(0) is None


RESYNC = replace(event(1), resync=True)
REFERENCE = change_event(event(1).as_object, "update", source="test", reference=True)
MERGES = [
    ("same object", event(1), event(2), False),
    ("a resync is waiting", RESYNC, event(2), True),
    ("a resync arrives", event(2), RESYNC, True),
    ("another kind: one may be reconciled, the other not", event(1, kind="Secret"), event(2), True),
    ("another object of the kind", event(1, name="two"), event(2), True),
    ("another change of the object", event(1, change="add"), event(1, change="delete"), False),
    ("a reference waits: it may be about what the object refers to", REFERENCE, event(2), True),
    ("a reference arrives", event(1), REFERENCE, False),
    ("references only", REFERENCE, REFERENCE, False),
]


@pytest.mark.parametrize(("waiting", "newer", "full"), [case[1:] for case in MERGES], ids=[case[0] for case in MERGES])
def test_merge_keeps_the_newer_event_and_an_owed_resync(waiting: Event, newer: Event, full: bool) -> None:
    merged = merge(waiting, newer)
    assert merged.resync == full
    assert replace(merged, resync=False) == replace(newer, resync=False)


WANTED = own_event("release.wanted", source="a", subject="r1", data={})
NEWS = [
    ("newer version", event(1), event(2), True),
    ("same version again", event(1), event(1), False),
    ("same version, other change", event(1), event(1, change="delete"), True),
    ("resync of another version", event(1), replace(event(2), resync=True), False),
    ("the same next step", WANTED, WANTED, False),
    ("the next step requested again", WANTED, replace(WANTED, id="other"), True),
]


@pytest.mark.parametrize(("waiting", "newer", "news"), [case[1:] for case in NEWS], ids=[case[0] for case in NEWS])
def test_is_news_is_true_for_another_change_only(waiting: Event, newer: Event, news: bool) -> None:
    assert is_news(change_of(waiting), newer) == news


def test_event_during_a_delivery_is_delivered_after_it(queue: WorkQueue) -> None:
    queue.add("f", ONE, event(1))
    item = take(queue)
    queue.add("f", ONE, event(2))
    queue.add("f", ONE, last := event(3))
    assert queue.take(0) is None, "one in flight per key"
    queue.finish(item, DONE)
    assert take(queue).event == last
    assert queue.pending().in_flight == 1


def test_requeued_item_is_repeated_after_its_wait(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, waiting := event(1))
    queue.finish(take(queue), DeliveryResult("requeue", 30))
    clock.now += 29.9
    assert queue.take(0) is None
    clock.now += 0.1
    assert take(queue).event == replace(waiting, repeated=True), "no resync, which has functions look for more"


OTHER, LATER = event(2, kind="Secret"), event(2)
WAIT, FAILURE = DeliveryResult("requeue", 30), DeliveryResult("failed", 30)
AGAIN = [
    pytest.param(event(1), [WAIT], event(2), False, id="a wait"),
    pytest.param(event(1), [WAIT, WAIT], event(2), False, id="two waits"),
    pytest.param(REFERENCE, [WAIT], event(2), False, id="a reference that waits"),
    pytest.param(RESYNC, [WAIT], event(2), True, id="a resync that waits"),
    pytest.param(event(1), [FAILURE], event(2), True, id="a failure"),
    pytest.param(event(1), [WAIT, FAILURE], event(2), True, id="a wait, then a failure"),
    pytest.param(event(1), [FAILURE, WAIT], event(2), True, id="a failure, then a wait"),
    pytest.param(event(1), [WAIT], event(2, kind="Secret"), True, id="an event about another object"),
]


@pytest.mark.parametrize(("first", "results", "newer", "full"), AGAIN)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["after", "during"])
def test_newer_event_after_a_plain_wait_is_no_resync(
    queue: WorkQueue,
    clock: Clock,
    first: Event,
    results: list[DeliveryResult],
    newer: Event,
    full: bool,
    meanwhile: bool,
) -> None:
    queue.add("f", ONE, first)
    for number, result in enumerate(results, 1):
        item = take(queue)
        if meanwhile and number == len(results):
            queue.add("f", ONE, newer)
        queue.finish(item, result)
        if number < len(results) or meanwhile:
            clock.now += 30
    if not meanwhile:
        queue.add("f", ONE, newer)
    assert take(queue).event == replace(newer, resync=full)


@pytest.mark.parametrize(
    ("first", "newer", "expected"),
    [
        pytest.param(event(1), OTHER, replace(OTHER, repeated=True), id="the primary object waits"),
        pytest.param(OTHER, LATER, replace(LATER, resync=True), id="another object waits"),
        pytest.param(event(1), LATER, LATER, id="an event about the same object"),
        pytest.param(RESYNC, OTHER, replace(OTHER, resync=True), id="a resync waits"),
        pytest.param(event(1), replace(OTHER, resync=True), replace(OTHER, resync=True), id="a resync arrives"),
        pytest.param(event(1, name="two"), OTHER, replace(OTHER, resync=True), id="another object of the kind waits"),
        pytest.param(WANTED, OTHER, replace(OTHER, resync=True), id="a next step waits"),
    ],
)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["after", "during"])
def test_event_about_another_object_becomes_the_repetition_that_the_primary_object_waits_for(
    queue: WorkQueue, first: Event, newer: Event, expected: Event, meanwhile: bool
) -> None:
    primary = PrimaryRef(CONFIG_MAP, ONE)
    queue.add("f", primary, first)
    item = take(queue)
    if meanwhile:
        queue.add("f", primary, newer)
    queue.finish(item, WAIT)
    if not meanwhile:
        queue.add("f", primary, newer)
    assert take(queue).event == expected


def test_event_ends_a_requeue_wait_and_cancels_its_time(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DeliveryResult("requeue", 30))
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DONE)
    clock.now += 60
    assert queue.take(0) is None
    assert queue.is_idle()


def test_backoff_grows_until_a_success_resets_it(queue: WorkQueue, clock: Clock) -> None:
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


def test_backoff_has_full_jitter() -> None:
    waits = [backoff(5) for _ in range(1000)]
    assert min(waits) < 0.4
    assert 2.8 < max(waits) <= 3.2


@pytest.mark.parametrize(
    ("again", "at_once"),
    [(event(1), False), (replace(event(2), resync=True), False), (event(2), True)],
    ids=["same change", "resync", "news"],
)
def test_only_a_new_change_ends_a_backoff(queue: WorkQueue, clock: Clock, again: Event, at_once: bool) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), FAILED)
    queue.add("f", ONE, again)
    assert (queue.take(0) is not None) == at_once
    clock.now += 0.2
    assert (queue.take(0) is not None) != at_once


def test_retry_after_of_a_failure_replaces_the_backoff(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    queue.finish(take(queue), DeliveryResult("failed", 7))
    clock.now += 6.9
    assert queue.take(0) is None
    clock.now += 0.1
    assert take(queue).failures == 1


def test_event_during_a_failed_delivery_waits_for_the_backoff_only(queue: WorkQueue, clock: Clock) -> None:
    queue.add("f", ONE, event(1))
    item = take(queue)
    queue.add("f", ONE, event(2))
    queue.finish(item, DeliveryResult("failed", 60))
    assert queue.take(0) is None
    clock.now += 0.2
    assert take(queue).event.resync


def test_add_after_delays_an_item(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after("f", ONE, event(), 5)
    assert queue.take(0) is None
    clock.now += 5
    assert take(queue).key == ONE


@pytest.mark.parametrize(("below", "idle"), [(5, True), (30, False)])
def test_is_idle_ignores_waits_above_its_limit(queue: WorkQueue, clock: Clock, below: float, idle: bool) -> None:
    queue.add("f", ONE, event())
    assert not queue.is_idle(below)
    item = take(queue)
    assert not queue.is_idle(below)
    queue.finish(item, DeliveryResult("requeue", 30))
    clock.now += 29
    assert queue.is_idle(below) == idle


def test_dropped_item_is_not_delivered_and_may_be_added_again(queue: WorkQueue, clock: Clock) -> None:
    for name in ("failing", "waiting", "kept", "ready"):
        queue.add("f", Key("default", name), event(name=name))
    for result in (FAILED, DeliveryResult("requeue", 5.0), FAILED):
        queue.finish(take(queue), result)
    queue.drop_waiting(lambda event: event.name != "kept")
    assert queue.pending() == Pending(ready=1, waiting=1, failing=1)
    queue.add("f", Key("default", "failing"), event(name="failing"))
    clock.now += 60
    assert [take(queue).event.name for _ in range(3)] == ["ready", "failing", "kept"]
    assert queue.take(0) is None


def test_token_bucket_limits_rate_and_burst(clock: Clock) -> None:
    bucket = TokenBucket(rate=10, burst=2)
    assert [bucket.wait(clock.now) for _ in range(3)] == [0, 0, pytest.approx(0.1)]
    clock.now += 0.11
    assert bucket.wait(clock.now) == 0
    clock.now += 60
    assert [bucket.wait(clock.now) for _ in range(3)] == [0, 0, pytest.approx(0.1)]


def test_close_makes_take_return_none() -> None:
    queue = WorkQueue()
    queue.close()
    assert queue.take() is None


def test_pending_items_are_counted_by_state(queue: WorkQueue) -> None:
    for name in ("a", "b", "c", "d"):
        queue.add("f", Key("default", name), event(name=name))
    failed, waiting, _ = take(queue), take(queue), take(queue)
    queue.finish(failed, FAILED)
    queue.finish(waiting, DeliveryResult("requeue", 60.0))
    assert queue.pending() == Pending(ready=1, in_flight=1, waiting=2, failing=1)
