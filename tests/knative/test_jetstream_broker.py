"""Knative's JetStream broker keeps what it has accepted, and repeats and gives up by the delivery of our Triggers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from functions import catalog
from shared.api.resources import CLUSTER
from shared.dead_letters import FUNCTION as DEAD_LETTERS
from shared.event import Event, change_event
from shared.runtime import Answer
from tests.support import knative_broker
from tests.support.event_receiver import EventReceiver
from tests.support.jetstream_broker import JetStreamBroker
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.until import HANGS, until

FUNCTION = "addon_apply"
REPEATS = 3
DELIVERY = {"retry": REPEATS, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}


class Behind:
    """The broker and what it calls in place of functions."""

    def __init__(self, broker: JetStreamBroker, receiver: EventReceiver) -> None:
        self.broker, self.receiver = broker, receiver

    def post(self, name: str) -> None:
        """Posts an event about a Cluster until the broker accepts it."""
        body = manifest(CLUSTER, name, "default", metadata={"uid": name, "resourceVersion": "1"})
        headers, data = change_event(body, "update", source="/test").to_http()

        def accepted() -> bool:
            answer = urllib3.request("POST", self.broker.sink, headers=headers, body=data, timeout=HANGS, retries=False)
            return answer.status == 202

        until(accepted, "the broker accepts an event")

    def called(self, function: str = FUNCTION) -> list[str]:
        """Returns the names of the Clusters in the calls of a function."""
        return [event.name for name, event, _ in list(self.receiver.received) if name == function]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    declared = {name: triggers for name, triggers in catalog.triggers().items() if name in (FUNCTION, DEAD_LETTERS)}
    with running_plane(tmp_path / "management") as plane, connected(plane) as client, ExitStack() as stack:
        knative_broker.install(client)
        broker = stack.enter_context(knative_broker.knative_broker(client, plane, tmp_path, JetStreamBroker))
        assert isinstance(broker, JetStreamBroker)
        receiver = stack.enter_context(EventReceiver())
        broker.wire(declared, lambda service: f"{receiver.url}/{service.replace('-', '_')}", DELIVERY)
        broker.start()
        behind = Behind(broker, receiver)

        def delivers() -> bool:
            behind.post("first")  # the ingress refuses until it has read which brokers there are
            time.sleep(0.2)
            return bool(behind.called())

        until(delivers, "the broker delivers")
        yield behind


@pytest.mark.timeout(1800)  # another test run may use the port of the filter
def test_accepted_events_survive_the_end_of_all_programs(behind: Behind) -> None:
    wanted = {f"c{number}" for number in range(20)}

    def respond(_function: str, _event: Event) -> Answer:
        time.sleep(0.3)  # so that most of the events wait when the programs end
        return Answer(204)

    behind.receiver.respond = respond
    for name in sorted(wanted):
        behind.post(name)
    behind.broker.kill()
    before = set(behind.called())
    assert wanted - before
    behind.broker.start()
    until(lambda: wanted <= set(behind.called()), "all accepted events", details=lambda: wanted - set(behind.called()))


@pytest.mark.timeout(1800)  # another test run may use the port of the filter
def test_an_event_that_fails_is_repeated_and_becomes_a_dead_letter(behind: Behind) -> None:
    behind.receiver.respond = lambda function, event: Answer(
        500 if (function, event.name) == (FUNCTION, "bad") else 204
    )
    behind.post("bad")
    until(lambda: "bad" in behind.called(DEAD_LETTERS), "the dead letter", details=behind.called)
    assert behind.called().count("bad") == REPEATS + 1


@pytest.mark.timeout(1800)  # another test run may use the port of the filter
def test_an_event_that_is_rejected_is_dropped(behind: Behind) -> None:
    """A difference to other brokers that docs/guarantees.md names: there is no dead letter."""

    def respond(_function: str, event: Event) -> Answer:
        return Answer(400 if event.name == "bad" else 204)

    behind.receiver.respond = respond
    for name in ("bad", "next"):
        behind.post(name)
    until(lambda: "next" in behind.called(), "the next event")
    assert behind.called().count("bad") == 1
    assert "bad" not in behind.called(DEAD_LETTERS)


@pytest.mark.timeout(1800)  # another test run may use the port of the filter
def test_stream_is_empty_once_all_triggers_have_handled_its_events(behind: Behind) -> None:
    for number in range(5):
        behind.post(f"c{number}")
    until(lambda: behind.broker.pending() == 0, "an empty stream", details=behind.broker.pending)
    assert behind.called().count("c4") == 1
