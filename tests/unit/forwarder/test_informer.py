"""What the informer reports of listed objects, and how often it requests a kind that is not served."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from events.informer import Informer
from events.references import ReferenceIndex
from events.rounds import NumberedRound, PlainRound, Rounds
from events.settling import Settling
from events.specs import InformerSpec
from shared.kube import Client, NotServed, Object, Resource
from shared.kube.credentials import Credentials
from shared.triggers import Watch

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")
ABSENT = NotServed("GET widgets: 404", status=404)


def informer(*, defined_kinds_are_watched: bool, settling: Settling | None = None) -> Informer:
    feed = InformerSpec(WIDGET, "", False, (("f", Watch(WIDGET)),))
    client = Client(Credentials("http://127.0.0.1:1"))
    watched = defined_kinds_are_watched
    rounds = Rounds(600.0, lambda _resync: PlainRound(lambda _e, _f: None, lambda _f, _e: True))
    return Informer(
        client,
        feed,
        lambda _e, _f: None,
        threading.Event(),
        rounds,
        "",
        ReferenceIndex([feed]),
        settling or Settling(),
        lambda: watched,
    )


def test_kind_without_definition_is_requested_every_five_minutes() -> None:
    of_widgets = informer(defined_kinds_are_watched=True)
    assert [of_widgets._not_served(ABSENT) for _ in range(5)] == pytest.approx([300.0] * 5, rel=0.21)


def test_kind_is_requested_at_once_when_defined_and_then_with_growing_pauses() -> None:
    of_widgets = informer(defined_kinds_are_watched=True)
    of_widgets._not_served(ABSENT)
    of_widgets.wake()
    assert of_widgets._awake.is_set(), "the definition ends the wait"
    pauses = [of_widgets._not_served(ABSENT) for _ in range(20)]
    assert pauses[0] <= 0.62
    assert all(after > before for before, after in pairwise(pauses[:10]))
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ([], []),
        ([0.0], [1.0]),
        ([0.0, 0.4, 0.9], [1.0, 0.9]),
        ([0.0, 0.4, 1.5], [1.0, 0.4]),
        ([0.5 * n for n in range(100)], [1.0] * 10),
    ],
    ids=["none", "one", "a burst", "another after the burst", "without end"],
)
def test_kind_is_requested_once_no_definition_changes_any_more(changes: list[float], waits: list[float]) -> None:
    now, coming = 0.0, list(changes)
    settling = Settling(lambda: noted if noted is not None else now)
    noted: float | None = None

    def pass_until(end: float) -> None:
        nonlocal now, noted
        now = end
        while coming and coming[0] <= now:
            noted = coming.pop(0)
            settling.note()
        noted = None

    pass_until(0.0)
    waited = []
    for seconds in settling.waits():
        waited.append(seconds)
        pass_until(now + seconds)
    assert waited == pytest.approx(waits)


def test_end_of_the_watcher_does_not_wait_for_definitions_to_settle() -> None:
    settling = Settling(lambda: 0.0)  # time stands still: a wait would not end
    settling.note()
    of_widgets = informer(defined_kinds_are_watched=True, settling=settling)
    of_widgets.end()
    of_widgets._wait_settled()


def test_kind_that_is_defined_just_before_its_first_request_is_requested_again_soon() -> None:
    of_widgets = informer(defined_kinds_are_watched=True)
    of_widgets.wake()
    of_widgets._awake.clear()  # as the thread does before each request
    pauses = [of_widgets._not_served(ABSENT) for _ in range(3)]
    assert pauses == pytest.approx([0.5, 1.0, 2.0], rel=0.21)


def test_kind_that_is_defined_during_its_first_request_is_requested_again_soon() -> None:
    of_widgets = informer(defined_kinds_are_watched=True)
    of_widgets.wake()
    pauses = [of_widgets._not_served(ABSENT) for _ in range(3)]
    assert pauses == pytest.approx([0.5, 1.0, 2.0], rel=0.21)


def test_kind_is_requested_with_growing_pauses_if_definitions_cannot_be_watched() -> None:
    of_widgets = informer(defined_kinds_are_watched=False)
    pauses = [of_widgets._not_served(ABSENT) for _ in range(12)]
    assert pauses[:3] == pytest.approx([2.0, 4.0, 8.0], rel=0.21)
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)


def test_change_between_a_watch_and_a_resync_is_reported_as_a_change() -> None:
    """A round leaves out what is settled, by what the objects show; only the change says that they are not."""
    watches = (("data", Watch(WIDGET, fields=("data",))), ("more", Watch(WIDGET, fields=("more",))))
    spec = InformerSpec(WIDGET, "", False, watches)
    changes: list[tuple[bool, list[str]]] = []
    looks: list[tuple[bool, list[str]]] = []
    client = Client(Credentials("http://127.0.0.1:1"))
    rounds = Rounds(600.0, lambda _resync: PlainRound(lambda _e, _f: None, lambda _f, _e: True))
    widgets = Informer(
        client,
        spec,
        lambda event, functions: changes.append((event.resync, list(functions))),
        threading.Event(),
        rounds,
        "",
        ReferenceIndex([spec]),
        Settling(),
    )
    round_ = PlainRound(lambda event, functions: looks.append((event.resync, list(functions))), lambda _f, _e: True)

    def widget(version: str, data: str) -> Object:
        return {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version}, "data": data}

    widgets._observe(widget("1", "old"))
    widgets._observe(widget("2", "new"), NumberedRound(2, True, round_))
    widgets._observe(widget("2", "new"), NumberedRound(3, True, round_))
    assert changes == [(False, ["data", "more"]), (False, ["data"])]
    assert looks == [(True, ["more"]), (True, ["data", "more"])]
