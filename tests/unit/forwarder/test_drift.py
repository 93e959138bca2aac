"""Looks for drift: spread over the interval, each object at its own time."""

from __future__ import annotations

from typing import Any

from events.drift import DriftLooks, share
from shared.api.resources import CONFIG_MAP
from shared.event import Event, change_event
from shared.kube import Key, Object, Resource, dig
from shared.triggers import PrimaryRef, Triggers, Watch

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")


def owner(obj: Any) -> Key | None:
    name = dig(obj, "metadata.labels.owner")
    return Key("ns", name) if name else None


TRIGGERS = {
    "own": Triggers("own", (Watch(CONFIG_MAP),)),
    "other": Triggers("other", (Watch(CONFIG_MAP),)),
    "mapped": Triggers("mapped", (Watch(CONFIG_MAP, key=owner),), primary_kinds=(WIDGET,)),
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def resync(name: str, **labels: str) -> Event:
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "data": {"large": "value"},
    }
    return change_event(obj, "update", source="test", resync=True)


def looks(clock: Clock) -> DriftLooks:
    return DriftLooks(TRIGGERS, lambda _event, _functions: None, every=600.0, clock=clock)


def taken(drift: DriftLooks) -> list[tuple[Event, set[str]]]:
    found = []
    while isinstance(look := drift.take(), tuple):
        found.append((look[0], set(look[1])))
    return found


def test_looks_are_spread_over_the_interval() -> None:
    clock = Clock()
    drift = looks(clock)
    names = [f"c{number}" for number in range(300)]
    for name in names:
        drift.add(resync(name), "own", PrimaryRef(CONFIG_MAP, Key("ns", name)))
    counts = []
    for _ in range(10):
        clock.now += 60.0
        counts.append(len(taken(drift)))
    assert sum(counts) == 300
    assert counts[0] == counts[-1] == 0, "neither at once nor beside the next round"
    assert max(counts) < 60, "spread over the others"
    assert drift.take() is None


def test_look_comes_at_the_same_time_in_each_interval() -> None:
    origin = ("", "ConfigMap", "ns", "one")
    assert share(origin) == share(origin)
    assert 0.1 <= share(origin) < 0.9
    assert share(origin) != share(("", "ConfigMap", "ns", "two"))


def test_functions_of_an_object_share_one_look_by_reference() -> None:
    clock = Clock()
    drift = looks(clock)
    for _ in range(2):  # two resyncs before the look is due
        for function in ("own", "other"):
            drift.add(resync("one"), function, PrimaryRef(CONFIG_MAP, Key("ns", "one")))
    assert isinstance(drift.take(), float)
    clock.now += 600.0
    [(event, functions)] = taken(drift)
    assert functions == {"own", "other"}
    assert (event.change, event.resync, event.object, event.key) == ("update", True, None, Key("ns", "one"))


def test_look_keeps_the_object_if_a_reference_does_not_lead_to_the_primary_object() -> None:
    clock = Clock()
    drift = looks(clock)
    drift.add(resync("one", owner="w"), "own", PrimaryRef(CONFIG_MAP, Key("ns", "one")))
    drift.add(resync("one", owner="w"), "mapped", PrimaryRef(WIDGET, Key("ns", "w")))
    clock.now += 600.0
    [(event, functions)] = taken(drift)
    assert functions == {"own", "mapped"}
    assert TRIGGERS["mapped"].key(event) == Key("ns", "w")
    assert event.resync
