"""How often a kind is asked for that is not served. No server is needed: what is looked at are the pauses."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from events.watcher import InformerSpec, _Informer, _ReferenceIndex
from shared.kube import Client, NotServed, Resource
from shared.kube.credentials import Credentials
from shared.triggers import Watch

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")
ABSENT = NotServed("GET widgets: 404", status=404)


def stream(*, defined_kinds_are_watched: bool) -> _Informer:
    feed = InformerSpec(WIDGET, "", False, (("f", Watch(WIDGET)),))
    client = Client(Credentials("http://127.0.0.1:1"))
    watched = defined_kinds_are_watched
    return _Informer(
        client, feed, lambda _e, _f: None, threading.Event(), 600.0, "", _ReferenceIndex([feed]), lambda: watched
    )


def test_kind_without_definition_is_asked_for_every_five_minutes() -> None:
    of_widgets = stream(defined_kinds_are_watched=True)
    assert [of_widgets._not_served(ABSENT) for _ in range(5)] == pytest.approx([300.0] * 5, rel=0.21)


def test_kind_is_asked_for_at_once_when_its_definition_comes_and_less_and_less_after_that() -> None:
    of_widgets = stream(defined_kinds_are_watched=True)
    of_widgets._not_served(ABSENT)
    of_widgets.wake()
    assert of_widgets._awake.is_set(), "the wait ends"
    pauses = [of_widgets._not_served(ABSENT) for _ in range(20)]
    assert pauses[0] <= 0.12
    assert all(after > before for before, after in pairwise(pauses[:12]))
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)


def test_where_definitions_cannot_be_watched_the_kind_is_asked_for_less_and_less() -> None:
    of_widgets = stream(defined_kinds_are_watched=False)
    pauses = [of_widgets._not_served(ABSENT) for _ in range(12)]
    assert pauses[:3] == pytest.approx([2.0, 4.0, 8.0], rel=0.21)
    assert pauses[-1] == pytest.approx(300.0, rel=0.21)
