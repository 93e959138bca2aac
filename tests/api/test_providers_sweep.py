"""The sweep looks at providers of all kinds; without it nobody would renew certificates, or mend what was changed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest

from functions import catalog
from shared.api.provider import CORE, KINDS, ProviderKind
from shared.api.resources import DEPLOYMENT, SECRET
from shared.certificates import Authority
from shared.event import PING, Event
from shared.kube import Key, dig
from tests.support.made_up import MANAGER, SPACE, MadeUp
from tests.support.provider_releases import whole
from tests.support.receiver import Receiver

OURS = Key(SPACE, "made-up-webhook-cert")


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Where the sweep sends to."""
    with Receiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        yield receiver


def of(core: MadeUp, kind: ProviderKind) -> MadeUp:
    return core.other(kind, "made-up", "other-system") if kind is not CORE else core


def swept(core: MadeUp, sink: Receiver, **data: object) -> list[Event]:
    """What a sweep sends."""
    sink.received.clear()
    answer = catalog.handler("sweep")(core.providers.clients, Event(type=PING, source="/test", id="1", data=data))
    assert answer.status == 204, answer.message
    events = [event for _, event, _ in sink.received]
    assert all(event.type == "dev.knative.apiserver.ref.update" for event in events)
    return events


def kinds(events: list[Event], *, resync: bool = False) -> list[str]:
    """Of those that are sent, in order; all must be marked so."""
    assert {event.resync for event in events} <= {resync}
    return sorted(event.kind for event in events)


def test_those_of_every_kind_that_are_not_settled(core: MadeUp, sink: Receiver) -> None:
    everyone = [of(core, kind) for kind in KINDS]
    for provider in everyone:
        provider.publish("v1.1.0")
        provider.want("v1.1.0")
    unsettled = sorted(kind.kind for kind in KINDS)
    for provider in everyone:
        assert kinds(swept(core, sink)) == unsettled
        [event] = [event for event in swept(core, sink) if event.kind == provider.kind.kind]
        assert event.key == provider.at
        core.providers.send(event)  # what got lost is made up for by this alone
        provider.until_ready()
        unsettled.remove(provider.kind.kind)
    assert swept(core, sink) == []
    assert kinds(swept(core, sink, everything=True), resync=True) == sorted(kind.kind for kind in KINDS)
    for kind in KINDS:
        assert kinds(swept(core, sink, kind=kind.kind)) == [kind.kind]


def test_one_that_asks_for_something_else_now_or_goes(core: MadeUp, sink: Receiver) -> None:
    core.publish("v1.1.0")
    core.publish("v1.2.0")
    core.install("v1.1.0")
    assert swept(core, sink) == []
    core.want("v1.2.0")
    assert core.told("Ready")[0] == "True"  # of before
    [event] = swept(core, sink)
    core.providers.send(event)
    core.until_ready()
    assert core.value == "v1.2.0"
    assert swept(core, sink) == []
    core.providers.client.delete(core.kind.resource, core.at)
    [event] = swept(core, sink)
    core.providers.send(event)
    assert core.gone


def test_what_somebody_changed_is_mended_by_a_sweep_of_everything(core: MadeUp, sink: Receiver) -> None:
    client = core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    client.patch(DEPLOYMENT, MANAGER, {"spec": {"replicas": 7}})
    assert swept(core, sink) == []  # nothing tells of it
    [event] = swept(core, sink, everything=True)
    core.providers.send(event)
    assert dig(client.get(DEPLOYMENT, MANAGER), "spec.replicas") == 1


def test_certificates_are_renewed_by_a_sweep_of_everything(core: MadeUp, sink: Receiver) -> None:
    client = core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    old = ending()
    client.patch(SECRET, OURS, {"data": old})
    due = {"status": {"target": {"renewAt": "2020-01-01T00:00:00Z"}}}
    client.patch(core.kind.resource, core.at, due, subresource="status")
    [event] = swept(core, sink, everything=True)
    core.providers.send(event)
    core.until_ready()
    assert client.get(SECRET, OURS)["data"]["tls.crt"] != old["tls.crt"]
    assert dig(core.object, "status.target.renewAt") > "2026"


def ending() -> dict[str, str]:
    """A certificate that serves for a month still, which is too little."""
    month, name = timedelta(days=30), f"made-up-webhook.{SPACE}.svc"
    authority = Authority.generate("old CA", month)
    pair = authority.issue(name, dns=(name,), server=True, valid_for=month)
    files = {"ca.crt": authority.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    return {name: base64.b64encode(content).decode() for name, content in files.items()}
