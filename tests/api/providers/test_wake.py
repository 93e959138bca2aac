"""The events that `provider_wake` emits when a Secret or ConfigMap changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functions.provider_wake import function
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.event import Event, change_event
from shared.kube import Key, Object, Resource
from shared.runtime import Answer
from tests.support.broker import subscribers
from tests.support.event_receiver import EventReceiver
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import METADATA, config_map, text

SELECTED = {"wakes": "some"}


@pytest.fixture(autouse=True)
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventReceiver]:
    """The sink of the function, which does not wait between two lists of the providers."""
    monkeypatch.setattr(function._PROVIDERS, "pause", 0.0)
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        yield receiver


@pytest.fixture
def others(core: FakeProvider) -> list[FakeProvider]:
    """Creates one provider beside the core provider, and two in a namespace of their own."""
    places = ((BOOTSTRAP, SPACE), (CONTROL_PLANE, "other-system"), (INFRASTRUCTURE, "other-system"))
    return [core.other(kind, "made-up", namespace) for kind, namespace in places]


def emitted(core: FakeProvider, sink: EventReceiver, event: Event) -> list[Event]:
    """Returns the events that the function emits for this event."""
    sink.received.clear()
    assert core.providers.send(event, ["provider_wake"]).status == 204
    return [each for _, each, _ in sink.received]


def names(events: list[Event]) -> set[tuple[str, Key]]:
    # For one function only: neither `provider_delete` nor `provider_wake` itself has anything to do.
    assert all(subscribers(event) == ["provider_preflight"] for event in events)
    assert len({(event.kind, event.key) for event in events}) == len(events)
    return {(event.kind, event.key) for event in events}


def of(*providers: FakeProvider) -> set[tuple[str, Key]]:
    return {(provider.kind.kind, provider.at) for provider in providers}


def changed(core: FakeProvider, resource: Resource, name: str, namespace: str = SPACE, *, whole: bool = False) -> Event:
    """Returns an event as the forwarder and the adapter send it; `whole` with the object in it."""
    found: Object = {
        **core.providers.client.get(resource, Key(namespace, name)),
        "apiVersion": resource.api_version,
        "kind": resource.kind,
    }
    return change_event(found, "update", source="/test", reference=not whole)


def test_changed_secret_wakes_providers_that_reference_it(
    core: FakeProvider, others: list[FakeProvider], sink: EventReceiver
) -> None:
    beside, elsewhere, its_own = others
    core.providers.secret("variables", SPACE, VALUE="one")
    core.providers.secret("unused", SPACE, VALUE="one")
    core.publish("v1.1.0", [config_map(core.label, "${VALUE:=none}")])
    core.install("v1.1.0", configSecret={"name": "variables"})
    assert core.value == "one"
    beside.apply("v1.1.0")
    elsewhere.apply("v1.1.0", configSecret={"name": "variables", "namespace": SPACE})
    its_own.apply("v1.1.0", configSecret={"name": "variables"})

    core.providers.secret("variables", SPACE, VALUE="two")
    events = emitted(core, sink, changed(core, SECRET, "variables"))
    assert names(events) == of(core, elsewhere)
    assert emitted(core, sink, changed(core, SECRET, "unused")) == []
    [about_core] = [event for event in events if event.kind == core.kind.kind]
    core.providers.send(about_core)
    core.until_ready()
    assert core.value == "two"


@pytest.mark.parametrize("whole", [False, True], ids=["reference", "object"])
def test_changed_config_map_wakes_providers_that_name_or_select_it(
    core: FakeProvider, others: list[FakeProvider], sink: EventReceiver, whole: bool
) -> None:
    providers, (beside, elsewhere, its_own) = core.providers, others
    components = text([config_map(core.label, "one")])
    providers.config_map("v1.1.0", SPACE, SELECTED, metadata=METADATA, components=components)
    providers.config_map("more", SPACE, manifests="")
    providers.config_map("unused", SPACE, {"wakes": "nobody"})
    providers.config_map("v1.1.0", "other-system", SELECTED)
    by_label = {"selector": {"matchLabels": SELECTED}}
    core.install("v1.1.0", fetchConfig=by_label)
    beside.apply("v1.1.0", additionalManifests={"name": "more"})
    elsewhere.apply("v1.1.0", additionalManifests={"name": "more", "namespace": SPACE})
    its_own.apply("v1.1.0", fetchConfig=by_label, additionalManifests={"name": "more", "namespace": SPACE})

    def emitted_for(name: str, namespace: str = SPACE) -> list[Event]:
        return emitted(core, sink, changed(core, CONFIG_MAP, name, namespace, whole=whole))

    assert names(emitted_for("more")) == of(beside, elsewhere, its_own)
    assert names(emitted_for("v1.1.0", "other-system")) == of(its_own)
    assert emitted_for("unused") == []
    providers.config_map("v1.1.0", SPACE, SELECTED, metadata=METADATA, components=components.replace("one", "two"))
    [about_core] = emitted_for("v1.1.0")
    assert names([about_core]) == of(core)
    providers.send(about_core)
    core.until_ready()
    assert core.value == "two"


def test_deleted_config_map_wakes_providers_that_name_it(core: FakeProvider, sink: EventReceiver) -> None:
    """Whether it was selected cannot be known."""
    providers = core.providers
    providers.config_map("more", SPACE, manifests="")
    core.apply("v1.1.0", additionalManifests={"name": "more"})
    event = changed(core, CONFIG_MAP, "more")
    providers.client.delete(CONFIG_MAP, event.key)
    assert names(emitted(core, sink, event)) == of(core)


def test_rejecting_sink_makes_the_event_retry(core: FakeProvider, sink: EventReceiver) -> None:
    core.providers.secret("variables", SPACE)
    core.apply("v1.1.0", configSecret={"name": "variables"})
    event = changed(core, SECRET, "variables")
    sink.respond = lambda _function, _event: Answer(503)
    answer = core.providers.send(event, ["provider_wake"])
    assert (answer.status, answer.retry_after) == (503, 5)
    assert "1 of 1 events" in answer.message


def test_change_concerns_a_provider_created_after_the_last_list(core: FakeProvider, sink: EventReceiver) -> None:
    """At once, since a broker does not deliver the event a second time."""
    core.providers.secret("unused", SPACE)
    assert emitted(core, sink, changed(core, SECRET, "unused")) == []
    core.apply("v1.1.0", configSecret={"name": "variables"})
    core.providers.secret("variables", SPACE)
    assert names(emitted(core, sink, changed(core, SECRET, "variables"))) == of(core)
