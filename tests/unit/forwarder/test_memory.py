"""What is queued in place of an event whose object does not fit, and how the memory of a queue is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from events.memory import Ledger, weigh, without_objects
from events.queue import DeliveryResult, WorkQueue
from shared.event import Change, Event, change_event, own_event
from shared.kube import Key, Resource, dig
from shared.triggers import PrimaryRef, Triggers, Watch

OWNER = Resource("example.dev", "v1", "Owner", "owners")
PART = Resource("example.dev", "v1", "Part", "parts")


def of_label(part: Mapping[str, Any]) -> Key | None:
    name = dig(part, "metadata.labels.owner")
    return Key("n", name) if name else None


OWN = Triggers("own", (Watch(OWNER),))
BY_NAME = Triggers("by-name", (Watch(OWNER), Watch(PART)))
BY_LABEL = Triggers("by-label", (Watch(OWNER), Watch(PART, key=of_label)))
UNMAPPED = Triggers("unmapped", (Watch(PART, key=lambda part: PrimaryRef(None, of_label(part) or Key("", ""))),))


def event(kind: Resource, name: str, change: Change = "update", **flags: bool) -> Event:
    metadata = {"namespace": "n", "name": name, "labels": {"owner": "o"}, "resourceVersion": "7"}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"much": list(range(100))}}
    return replace(change_event(obj, change, source="test"), **flags)


CASES: list[tuple[str, Event, list[Triggers], list[tuple[str, str, str, bool]]]] = [
    ("primary", event(OWNER, "o"), [OWN], [("ref.update", "Owner", "o", False)]),
    ("new primary", event(OWNER, "o", "add"), [OWN], [("ref.add", "Owner", "o", False)]),
    ("deleted primary", event(OWNER, "o", "delete"), [OWN], [("ref.delete", "Owner", "o", False)]),
    ("resync", event(OWNER, "o", resync=True), [OWN], [("ref.update", "Owner", "o", True)]),
    ("another object of the name", event(PART, "o"), [BY_NAME], [("ref.update", "Part", "o", True)]),
    ("mapped by content", event(PART, "p"), [BY_LABEL], [("ref.update", "Owner", "o", True)]),
    ("deletion, mapped by content", event(PART, "p", "delete"), [BY_LABEL], [("ref.update", "Owner", "o", True)]),
    (
        "a sink with several receivers",
        event(PART, "p"),
        [OWN, BY_NAME, BY_LABEL],
        [("ref.update", "Part", "p", True), ("ref.update", "Owner", "o", True)],
    ),
    ("of no receiver", event(PART, "p"), [OWN], [("ref.update", "Part", "p", False)]),
    ("nothing leads to the same key", event(PART, "p"), [UNMAPPED], [("resource.update", "Part", "p", False)]),
]


@pytest.mark.parametrize(
    ("full", "receivers", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_event_without_object_leads_each_function_to_the_same_primary_object(
    full: Event, receivers: list[Triggers], expected: list[tuple[str, str, str, bool]]
) -> None:
    found = without_objects(full, receivers)
    shape = [(each.type.removeprefix("dev.knative.apiserver."), each.kind, each.name, each.resync) for each in found]
    assert shape == expected
    for declared in receivers:
        if (ref := declared.primary_ref(full)) is not None:
            assert ref in [declared.primary_ref(each) for each in found]


def test_event_without_an_object_stays_as_it_is() -> None:
    for each in (event(OWNER, "o").without_object(), own_event("x", source="s", subject="y", data={"a": 1})):
        assert without_objects(each, [OWN]) == [each]


def test_data_that_events_share_counts_once_and_nothing_is_left_at_the_end() -> None:
    ledger, one, two = Ledger(), {"a": 1}, {"a": 1}
    ledger.hold(one, 10)
    ledger.hold(one, 10)
    ledger.hold(two, 5)
    assert ledger.total == 15
    for data in (one, two, one):
        ledger.release(data)
    assert (ledger.total, ledger._held) == (0, {})


@pytest.mark.parametrize("result", ["done", "failed", "requeue"])
def test_queue_counts_the_objects_that_it_holds(result: Any) -> None:
    queue = WorkQueue(lighten=lambda _function, full: without_objects(full, [OWN])[0], jitter=lambda low, _high: low)
    first, second = event(OWNER, "o"), event(OWNER, "o")
    for function in ("f", "g"):
        queue.add(function, Key("n", "o"), first)
    assert queue.bytes == weigh(first.data)
    item = queue.take(0)
    assert item is not None
    queue.add(item.function, Key("n", "o"), second)
    assert queue.bytes == weigh(first.data) + weigh(second.data)
    queue.finish(item, DeliveryResult(result))
    for _ in range(2):
        if (item := queue.take(0)) is not None:
            queue.finish(item, DeliveryResult("done"))
    queue.drop_waiting(lambda _event: True)
    assert (queue.size, queue.bytes) == (0, 0)


@pytest.mark.parametrize("result", ["failed", "requeue"])
def test_event_that_waits_keeps_no_object_and_counts_as_listed(result: Any) -> None:
    queue = WorkQueue(lighten=lambda _function, full: without_objects(full, [OWN])[0])
    queue.add("f", Key("n", "o"), full := event(OWNER, "o"))
    item = queue.take(0)
    assert item is not None
    queue.finish(item, DeliveryResult(result, 100.0))
    assert queue.bytes < weigh(full.data) / 4
    assert item.event.object is None
    assert (item.event.resync, item.event.repeated) == (result == "failed", result == "requeue")
    queue.add("f", Key("n", "o"), full)
    assert (queue.take(0) is None) == (result == "failed"), "the same change again does not end a back-off"
    seen: list[Event] = []
    queue.drop_waiting(lambda waiting: seen.insert(0, waiting) is not None)  # type: ignore[func-returns-value]
    assert all(each.change == "update" and each.object is not None for each in seen)
