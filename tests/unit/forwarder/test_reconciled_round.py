"""What a round of lists forwards: tables of a Widget, which a function reconciles, and a ConfigMap mapped to it."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest

from events.reconciled import ReconciledRound, View, joined_kinds
from events.specs import informer_specs
from shared.api.resources import CONFIG_MAP, SECRET
from shared.event import Change, Event, change_event
from shared.kube import Key, Object, Resource, dig, key_of
from shared.triggers import PrimaryRef, Referrer, Triggers, Watch

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")
GOING = "2026-01-01T00:00:00Z"


def reconciled(widget: Object, event: Event, _now: datetime) -> bool:
    """The widget is done, and the event's ConfigMap has the value that it reports; raises if a value is missing."""
    return bool(widget["status"]["done"]) and (
        event.kind != "ConfigMap" or dig(event.object, "data.value") == widget["status"]["value"]
    )


WATCHES = (Watch(WIDGET), Watch(CONFIG_MAP), Watch(SECRET, reference=True, changes=("add", "update")))
JUDGED = {"f": Triggers("f", WATCHES, is_reconciled=reconciled)}
UNJUDGED = {"f": Triggers("f", WATCHES)}


def widget(name: str = "one", *, done: bool = True, **metadata: Any) -> Object:
    metadata |= {"namespace": "ns", "name": name, "uid": name}
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "metadata": metadata,
        "status": {"done": done, "value": "a"},
    }


def config_map(value: str = "a", **metadata: Any) -> Object:
    metadata |= {"namespace": "ns", "name": "one"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def secret(name: str = "one") -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": name}}


class Listing:
    """A round, the specs by kind, and what it forwarded and found settled."""

    def __init__(self, triggers: dict[str, Triggers], referenced: str = "one") -> None:
        self.known: bool | None = None
        self.specs = {spec.resource.kind: spec for spec in informer_specs(triggers.values())}
        self.forwarded: list[tuple[str, str]] = []
        self.looks: list[tuple[str, str, PrimaryRef]] = []
        view = View(triggers, lambda _r, _k: self.known, lambda _f, event: event.name == referenced)
        self.round = ReconciledRound(
            view,
            lambda event, functions: self.forwarded.extend((event.kind, name) for name in functions),
            lambda event, name, ref: self.looks.append((event.kind, name, ref)),
            self.specs.values(),
            patience=0.0,
        )

    def lists(self, kind: str, *objects: Object, change: Change = "add", resync: bool = False) -> None:
        spec = self.specs[kind]
        for obj in objects:
            self.round.see(spec, obj)
            event = change_event(obj, change, source="test", reference=spec.reference, resync=resync)
            self.round.report(event, [name for name, _ in spec.watches])
        self.round.end(spec)


@pytest.mark.parametrize(
    ("obj", "of_config_map", "forwarded"),
    [
        pytest.param(widget(), config_map(), [], id="settled"),
        pytest.param(widget(done=False), config_map(), ["Widget", "ConfigMap"], id="not done"),
        pytest.param(widget(), config_map("b"), ["ConfigMap"], id="the other object differs"),
        pytest.param(widget(deletionTimestamp=GOING), config_map(), ["Widget", "ConfigMap"], id="being deleted"),
        pytest.param(widget(), config_map(deletionTimestamp=GOING), ["ConfigMap"], id="the other is being deleted"),
        pytest.param(widget("other"), config_map(), ["ConfigMap"], id="no primary object"),
        pytest.param({**widget(), "status": {}}, config_map(), ["Widget", "ConfigMap"], id="predicate raises"),
    ],
)
@pytest.mark.parametrize("order", [("Widget", "ConfigMap"), ("ConfigMap", "Widget")])
def test_event_is_forwarded_unless_both_objects_show_nothing_to_do(
    obj: Object, of_config_map: Object, forwarded: list[str], order: tuple[str, str]
) -> None:
    listing = Listing(JUDGED)
    for kind in order:
        listing.lists(kind, obj if kind == "Widget" else of_config_map)
    assert sorted(listing.forwarded) == sorted((kind, "f") for kind in forwarded)


def test_event_with_a_reference_is_judged_by_the_primary_object() -> None:
    listing = Listing(JUDGED)
    listing.lists("Secret", secret())
    assert listing.forwarded == []
    listing.lists("Widget", widget(done=False))
    assert listing.forwarded == [("Widget", "f"), ("Secret", "f")]
    assert listing.looks == []


@pytest.mark.parametrize(
    ("change", "resync", "looks"), [("add", False, ["Secret", "Widget"]), ("update", True, ["Widget"])]
)
def test_object_that_a_reference_hides_is_looked_at_after_a_start(
    change: Change, resync: bool, looks: list[str]
) -> None:
    listing = Listing(JUDGED)
    listing.lists("Secret", secret(), change=change, resync=resync)
    listing.lists("Widget", widget(), change=change, resync=resync)
    assert listing.forwarded == []
    assert sorted(kind for kind, _, _ in listing.looks) == looks


def test_everything_is_forwarded_for_a_function_that_declares_no_predicate() -> None:
    listing = Listing(UNJUDGED)
    for kind, obj in (("ConfigMap", config_map()), ("Widget", widget()), ("Secret", secret())):
        listing.lists(kind, obj)
    assert sorted(kind for kind, _ in listing.forwarded) == ["ConfigMap", "Secret", "Widget"]


def test_mapping_that_fails_leaves_out_its_function_only() -> None:
    def broken(_obj: Any) -> Key:
        raise TypeError("no such field")

    listing = Listing({"f": Triggers("f", (Watch(WIDGET, key=broken),)), "g": Triggers("g", (Watch(WIDGET),))})
    listing.lists("Widget", widget())
    assert listing.forwarded == [("Widget", "g")]


def test_held_events_are_forwarded_if_a_kind_is_never_listed() -> None:
    listing = Listing(JUDGED)
    listing.lists("ConfigMap", config_map())
    assert listing.forwarded == []
    listing.round.wait(threading.Event())
    assert listing.forwarded == [("ConfigMap", "f")]
    listing.lists("Widget", widget())
    assert listing.forwarded == [("ConfigMap", "f")], "a late list is decided by its own objects"
    listing.round.report(change_event(config_map(), "add", source="test"), ["f"])
    assert listing.forwarded == [("ConfigMap", "f")] * 2, "the widgets are not kept any more"


def test_round_keeps_no_object_once_all_kinds_are_listed() -> None:
    listing = Listing(JUDGED)
    for kind, obj in (("Secret", secret()), ("ConfigMap", config_map()), ("Widget", widget())):
        listing.lists(kind, obj)
    assert (listing.round._objects, listing.round._held) == ({}, [])
    listing.round.wait(threading.Event())


@pytest.mark.parametrize(("change", "resync"), [("add", False), ("update", True)])
def test_settled_object_is_reported_once_per_function(change: Change, resync: bool) -> None:
    listing = Listing(JUDGED)
    for kind, obj in (("Secret", None), ("ConfigMap", config_map()), ("Widget", widget())):
        listing.lists(kind, *[obj] * (obj is not None), change=change, resync=resync)
    assert listing.forwarded == []
    assert [(name, ref) for _, name, ref in listing.looks] == [("f", PrimaryRef(WIDGET, Key("ns", "one")))]


def test_predicate_is_asked_as_the_sweep_asks_it() -> None:
    asked: list[Event] = []
    declared = Triggers("f", (Watch(WIDGET),), is_reconciled=lambda _widget, event, _now: not asked.append(event))  # type: ignore[func-returns-value]
    Listing({"f": declared}).lists("Widget", widget(), change="update", resync=True)
    assert [(event.type, event.resync) for event in asked] == [("dev.knative.apiserver.resource.add", False)]


@pytest.mark.parametrize(
    ("needs_primary", "known", "forwarded"),
    [
        pytest.param(True, False, [], id="nothing to act on"),
        pytest.param(True, None, ["ConfigMap"], id="not known to be absent"),
        pytest.param(True, True, ["ConfigMap"], id="created since the list"),
        pytest.param(False, False, ["ConfigMap"], id="creates its primary object"),
    ],
)
def test_event_whose_primary_object_is_missing(needs_primary: bool, known: bool | None, forwarded: list[str]) -> None:
    watches = (Watch(WIDGET), Watch(CONFIG_MAP, needs_primary=needs_primary))
    listing = Listing({"f": Triggers("f", watches, is_reconciled=reconciled)})
    listing.lists("ConfigMap", config_map())
    listing.known = known
    listing.lists("Widget")
    assert [kind for kind, _ in listing.forwarded] == forwarded


def test_references_are_judged_when_all_kinds_are_listed() -> None:
    """A Secret is listed before the object that refers to it: the event waits until the references are complete."""
    by_reference = Watch(SECRET, reference=True, referenced_by=(Referrer(WIDGET, lambda obj: [key_of(obj)]),))
    listing = Listing({"f": Triggers("f", (Watch(WIDGET, changes=("delete",)), by_reference))})
    listing.lists("Secret", secret("one"), secret("two"))
    assert listing.forwarded == []
    listing.lists("Widget", widget())
    assert listing.forwarded.count(("Secret", "f")) == 1


def test_only_kinds_that_others_are_mapped_to_are_kept() -> None:
    alone = Triggers("alone", (Watch(CONFIG_MAP),), is_reconciled=reconciled)
    assert joined_kinds([*JUDGED.values(), alone]) == {WIDGET}
    assert joined_kinds(UNJUDGED.values()) == set()
