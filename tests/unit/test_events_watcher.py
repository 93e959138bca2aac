"""How often the watcher requests a kind that is not served, measured by its pauses, without a server."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from events.rounds import PlainRound, Rounds
from events.specs import InformerSpec
from events.watcher import _Informer, _ReferenceIndex
from shared.kube import Client, NotServed, Resource
from shared.kube.credentials import Credentials
from shared.triggers import Watch

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")
ABSENT = NotServed("GET widgets: 404", status=404)


def informer(*, defined_kinds_are_watched: bool) -> _Informer:
    feed = InformerSpec(WIDGET, "", False, (("f", Watch(WIDGET)),))
    client = Client(Credentials("http://127.0.0.1:1"))
    watched = defined_kinds_are_watched
    rounds = Rounds(600.0, lambda _resync: PlainRound(lambda _e, _f: None, lambda _f, _e: True))
    return _Informer(
        client, feed, lambda _e, _f: None, threading.Event(), rounds, "", _ReferenceIndex([feed]), lambda: watched
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
    assert pauses[0] <= 0.12
    assert all(after > before for before, after in pairwise(pauses[:12]))
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)


def test_kind_is_requested_with_growing_pauses_if_definitions_cannot_be_watched() -> None:
    of_widgets = informer(defined_kinds_are_watched=False)
    pauses = [of_widgets._not_served(ABSENT) for _ in range(12)]
    assert pauses[:3] == pytest.approx([2.0, 4.0, 8.0], rel=0.21)
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)
