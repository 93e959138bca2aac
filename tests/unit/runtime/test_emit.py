"""`emit`: sends declared events to K_SINK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from events.delivery import HttpDelivery
from shared.certificates import CertificateAuthority
from shared.event import REFERENCE, RESOURCE, Event, change_event
from shared.runtime import sink
from shared.runtime.sink import emit
from shared.triggers import Triggers
from tests.support.event_receiver import EventReceiver
from tests.support.http_server import HttpServer, Response

TRIGGERS = Triggers("f", emits=(REFERENCE + "update",))
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}


def test_emit_posts_declared_events_to_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        answer = emit(TRIGGERS, [change_event(OBJECT, "update", source="/f", reference=True)], "sent")
    assert (answer.status, [event.key for _, event, _ in receiver.received]) == (204, [("n", "c")])


def test_emit_raises_for_an_undeclared_event_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster it would be lost: there is no Trigger for it."""
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        with pytest.raises(ValueError, match=f"f does not declare that it emits {RESOURCE}update"):
            emit(TRIGGERS, [change_event(OBJECT, "update", source="/f")], "sent")
    assert receiver.received == []


def test_emit_without_a_sink_answers_503_so_that_the_event_is_redelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may start before its SinkBinding sets K_SINK."""
    monkeypatch.delenv("K_SINK", raising=False)
    answer = emit(TRIGGERS, [], "sent")
    assert (answer.status, answer.message) == (503, "K_SINK is not set: it must be the URL to send events to")


# -- a sink that checks its senders, at https --------------------------------------------------------------------

EVENT = change_event(OBJECT, "update", source="/f", reference=True)


@contextmanager
def encrypted(folder: Path) -> Iterator[tuple[HttpServer, str]]:
    """Yields a sink at https, and its CA."""
    ca = CertificateAuthority.generate("broker")
    pair = ca.issue("broker", ips=["127.0.0.1"], server=True)
    folder.mkdir()
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    with HttpServer(lambda _: Response(204), tls=folder) as server:
        yield server, ca.cert_pem.decode()


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    """A sink whose CA and URL are in the environment; the file with the token is still absent."""
    with encrypted(tmp_path / "broker") as (server, ca):
        monkeypatch.setattr(sink, "TOKEN", tmp_path / "token")
        monkeypatch.setenv("K_CA_CERTS", ca)
        monkeypatch.setenv("K_SINK", server.url)
        yield server


def deliver(url: str, event: Event) -> int:
    delivery = HttpDelivery(url, single=True)
    try:
        return delivery("sink", event).status
    finally:
        delivery.close()


@pytest.mark.parametrize(
    "send", [lambda _url, event: emit(TRIGGERS, [event], "sent").status, deliver], ids=["function", "forwarder"]
)
def test_sink_is_trusted_by_its_ca_and_given_the_senders_present_token(
    secured: HttpServer, monkeypatch: pytest.MonkeyPatch, send: Callable[[str, Event], int]
) -> None:
    assert send(secured.url, EVENT) == 204
    for token in ("first", "renewed"):
        sink.TOKEN.write_text(f"{token}\n")
        assert send(secured.url, EVENT) == 204
    assert [request.authorization for request in secured.requests] == [None, "Bearer first", "Bearer renewed"]
    monkeypatch.delenv("K_CA_CERTS")
    assert send(secured.url, EVENT) == 503
    assert len(secured.requests) == 3, "nothing is sent to a server that is not trusted"


def test_sink_is_trusted_by_the_trust_bundles_as_they_are_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Knative mounts them where an administrator has any, and changes the files without a restart of the pods."""
    bundles = tmp_path / "bundles"
    monkeypatch.setattr(sink, "AUTHORITIES", bundles)
    with encrypted(tmp_path / "one") as (one, first), encrypted(tmp_path / "two") as (two, second):
        assert deliver(one.url, EVENT) == 503
        bundles.mkdir()
        (bundles / "..data").mkdir()
        (bundles / "notes.txt").write_text("not a certificate")
        delivery = HttpDelivery(one.url, single=True)
        assert delivery("sink", EVENT).status == 503
        (bundles / "bundle.pem").write_text(first)
        assert delivery("sink", EVENT).status == 204
        delivery.close()
        delivery = HttpDelivery(two.url, single=True)
        assert delivery("sink", EVENT).status == 503
        (bundles / "bundle.pem").write_text(first + second)
        assert delivery("sink", EVENT).status == 204
        delivery.close()
        monkeypatch.setenv("K_SINK", two.url)
        assert emit(TRIGGERS, [EVENT], "sent").status == 204


def test_events_about_one_object_have_the_same_partition_at_a_sink() -> None:
    with HttpServer(lambda _: Response(204)) as server:
        for event in (EVENT, change_event(OBJECT, "delete", source="/f"), Event(type="a.timer", source="/f", id="1")):
            assert deliver(server.url, event) == 204
    keys = [request.headers.get("Ce-Partitionkey") for request in server.requests]
    assert keys == ["ConfigMap./n/c", "ConfigMap./n/c", None]


def test_token_for_the_sink_is_not_sent_to_functions(secured: HttpServer) -> None:
    sink.TOKEN.write_text("secret")
    with HttpServer(lambda _: Response(204)) as functions:
        delivery = HttpDelivery(functions.url)
        assert delivery("cluster", EVENT).status == 204
        delivery.close()
    [request] = functions.requests
    assert (request.path, request.authorization) == ("/cluster", None)
