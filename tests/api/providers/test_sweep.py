"""The sweep emits events for providers of all kinds: it renews certificates and reverts manual changes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest

from functions import catalog
from shared.api.provider import CORE, KINDS, ProviderKind
from shared.api.resources import DEPLOYMENT, SECRET
from shared.certificates import CertificateAuthority
from shared.event import PING, Event
from shared.kube import Key, dig
from tests.support.event_receiver import EventReceiver
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import whole

OURS = Key(SPACE, "made-up-webhook-cert")


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventReceiver]:
    """The sink of the sweep."""
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        yield receiver


def of(core: FakeProvider, kind: ProviderKind) -> FakeProvider:
    return core.other(kind, "made-up", "other-system") if kind is not CORE else core


def swept(core: FakeProvider, sink: EventReceiver, **data: object) -> list[Event]:
    """Returns the events of a sweep."""
    sink.received.clear()
    answer = catalog.handler("sweep")(core.providers.clients, Event(type=PING, source="/test", id="1", data=data))
    assert answer.status == 204, answer.message
    events = [event for _, event, _ in sink.received]
    assert all(event.type == "dev.knative.apiserver.ref.update" for event in events)
    return events


def kinds(events: list[Event], *, resync: bool = False) -> list[str]:
    """Returns the kinds of the events, in order; asserts that all are marked so."""
    assert {event.resync for event in events} <= {resync}
    return sorted(event.kind for event in events)


def test_sweep_emits_unreconciled_providers_of_every_kind(core: FakeProvider, sink: EventReceiver) -> None:
    everyone = [of(core, kind) for kind in KINDS]
    for provider in everyone:
        provider.publish("v1.1.0")
        provider.apply("v1.1.0")
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


def test_sweep_emits_changed_and_deleting_providers(core: FakeProvider, sink: EventReceiver) -> None:
    core.publish("v1.1.0")
    core.publish("v1.2.0")
    core.install("v1.1.0")
    assert swept(core, sink) == []
    core.apply("v1.2.0")
    assert core.condition_of("Ready")[0] == "True"  # of before
    [event] = swept(core, sink)
    core.providers.send(event)
    core.until_ready()
    assert core.value == "v1.2.0"
    assert swept(core, sink) == []
    core.providers.client.delete(core.kind.resource, core.at)
    [event] = swept(core, sink)
    core.providers.send(event)
    assert core.gone


def test_full_sweep_reverts_manual_changes(core: FakeProvider, sink: EventReceiver) -> None:
    client = core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    client.patch(DEPLOYMENT, MANAGER, {"spec": {"replicas": 7}})
    assert swept(core, sink) == []  # nothing tells of it
    [event] = swept(core, sink, everything=True)
    core.providers.send(event)
    assert dig(client.get(DEPLOYMENT, MANAGER), "spec.replicas") == 1


def test_sweep_renews_certificates(core: FakeProvider, sink: EventReceiver) -> None:
    client = core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    old = ending()
    client.patch(SECRET, OURS, {"data": old})
    due = {"status": {"target": {"renewAt": "2020-01-01T00:00:00Z"}}}
    client.patch(core.kind.resource, core.at, due, subresource="status")
    [event] = swept(core, sink)
    core.providers.send(event)
    core.until_ready()
    assert client.get(SECRET, OURS)["data"]["tls.crt"] != old["tls.crt"]
    assert dig(core.object, "status.target.renewAt") > "2026"


def test_sweep_has_components_checked_again(core: FakeProvider, sink: EventReceiver) -> None:
    """The event of a workload that runs again may be lost."""
    core.publish("v1.1.0")
    core.install("v1.1.0")
    broken = [
        {**one, "status": "False", "reason": "WorkloadsUnavailable"}
        if one["type"] in ("ComponentsAvailable", "Ready")
        else one
        for one in dig(core.object, "status.conditions")
    ]
    core.providers.client.patch(core.kind.resource, core.at, {"status": {"conditions": broken}}, subresource="status")
    [event] = swept(core, sink)
    core.providers.send(event)
    assert core.condition_of("Ready")[0] == "True"


def ending() -> dict[str, str]:
    """Returns a certificate that expires in a month, which is due for renewal."""
    month, name = timedelta(days=30), f"made-up-webhook.{SPACE}.svc"
    ca = CertificateAuthority.generate("old CA", month)
    pair = ca.issue(name, dns=(name,), server=True, valid_for=month)
    files = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
    return {name: base64.b64encode(content).decode() for name, content in files.items()}
