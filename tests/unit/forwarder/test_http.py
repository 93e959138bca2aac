"""Delivery and ingress over real HTTP."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import urllib3

from events.delivery import HttpDelivery, address, read_answer
from events.ingress import Ingress
from events.replay import replay_to
from shared.event import Event, change_event, issue, own_event
from shared.runtime import sink
from shared.runtime.answer import Answer
from tests.support.event_receiver import EventReceiver
from tests.support.until import HANGS

EVENT = change_event(
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "one"}}, "add", source="test"
)
REPLY = issue(own_event("wanted", source="test", subject="x", data={"release": "1"}))


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def delivering(url: str, *, single: bool = False) -> Iterator[HttpDelivery]:
    deliver = HttpDelivery(url, single=single)
    try:
        yield deliver
    finally:
        deliver.close()


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://functions:8080", "http://functions:8080/addon_apply"),
        ("http://functions/below/", "http://functions/below/addon_apply"),
        ("http://{function}", "http://addon-apply"),
        ("http://{function}.team:8080/", "http://addon-apply.team:8080/"),
    ],
)
def test_url_of_a_function_is_a_path_or_a_host(url: str, wanted: str) -> None:
    assert address(url, "addon_apply") == wanted


@pytest.mark.parametrize(
    "answer",
    [
        Answer(204),
        Answer(200, reply=REPLY),
        Answer(202, retry_after=2.5),
        Answer(503, "busy", retry_after=0.25),
        Answer(400, "not for me"),
        Answer(500, "a bug"),
    ],
    ids=lambda answer: str(answer.status),
)
def test_http_delivery_returns_the_answer_of_the_function(answer: Answer) -> None:
    with EventReceiver(lambda _function, _event: answer) as receiver, delivering(receiver.url) as deliver:
        assert deliver("cluster", EVENT) == answer
    [(function, event, _)] = receiver.received
    assert (function, event) == ("cluster", EVENT)


def test_http_delivery_with_single_posts_to_the_url_itself() -> None:
    with EventReceiver() as receiver, delivering(receiver.url + "/default/broker", single=True) as deliver:
        assert deliver("sink", EVENT).status == 204
    assert receiver.received[0][0] == "default/broker"


def test_only_the_sink_of_the_binding_gets_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (token := tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setattr(sink, "TOKEN", token)
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url + "/broker")
        for path in ("/broker", "/other"):
            with delivering(receiver.url + path, single=True) as deliver:
                deliver("", EVENT)
    assert [request.authorization for request in receiver.requests] == ["Bearer t0ken", None]


def test_http_delivery_answers_503_for_a_refused_connection() -> None:
    with delivering(f"http://127.0.0.1:{unused_port()}") as deliver:
        answer = deliver("cluster", EVENT)
    assert answer.status == 503
    assert "refused" in answer.message


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (200, {}, b"OK", Answer(200)),
        (503, {"Retry-After": "3"}, b"", Answer(503, retry_after=3)),
        (503, {"Retry-After": "3", "Retry-After-Ms": "250"}, b"", Answer(503, retry_after=0.25)),
        (503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"", Answer(503)),
        (200, {"ce-id": "1"}, b"", Answer(502, "the reply is not a valid CloudEvent")),
    ],
)
def test_read_answer_parses_status_retry_after_and_reply(
    status: int, headers: dict[str, str], body: bytes, expected: Answer
) -> None:
    answer = read_answer(status, headers, body)
    assert (answer.status, answer.retry_after) == (expected.status, expected.retry_after)
    assert answer.message.startswith(expected.message)


@contextmanager
def listening(submit: Callable[[Event], object], **options: object) -> Iterator[Ingress]:
    ingress = Ingress(submit, **options)
    ingress.start()
    try:
        yield ingress
    finally:
        ingress.stop()


def test_ingress_accepts_binary_structured_and_chunked_events() -> None:
    taken: list[Event] = []
    headers, body = EVENT.to_http()
    structured = {"content-type": "application/cloudevents+json"}
    with listening(taken.append) as ingress, urllib3.PoolManager(retries=False) as http:
        answers = [
            http.request("POST", ingress.url, headers=headers, body=body),
            http.request("POST", ingress.url + "any/path", headers=structured, body=EVENT.to_json()),
            http.request("POST", ingress.url, headers=headers, body=iter([body[:10], body[10:]]), chunked=True),
        ]
        assert http.request("GET", ingress.url).data == b"ok\n"
    assert [(answer.status, answer.data) for answer in answers] == [(202, b"")] * 3
    assert taken == [EVENT] * 3


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({}, b"{}", "not a CloudEvent"),
        ({"content-type": "application/cloudevents+json"}, b"{", "not a valid CloudEvent"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s"}, b"[]", "it must be an object"),
        ({"ce-id": "1", "content-length": "99999999"}, b"", "larger than"),
    ],
)
def test_ingress_rejects_invalid_events_with_the_reason(headers: dict[str, str], body: bytes, message: str) -> None:
    taken: list[Event] = []
    with listening(taken.append) as ingress, urllib3.PoolManager(retries=False) as http:
        answer = http.request("POST", ingress.url, headers=headers, body=body)
    assert answer.status == 400
    assert message in answer.data.decode()
    assert not taken


def test_ingress_uses_a_given_listening_socket() -> None:
    taken: list[Event] = []
    listener = socket.create_server(("127.0.0.1", 0))
    with listening(taken.append, listener=listener) as ingress:
        assert ingress.port == listener.getsockname()[1]
        assert replay_to(ingress.url, [EVENT]) == {202: 1}
    assert taken == [EVENT]


def test_replay_to_retries_failures_and_counts_the_last_answers() -> None:
    script = [Answer(503, retry_after=0.01), Answer(204), Answer(400), *[Answer(500)] * 2]
    last: list[tuple[Event, int]] = []
    with EventReceiver(lambda _function, _event: script.pop(0)) as receiver:
        counted = replay_to(
            receiver.url,
            [EVENT] * 3,
            attempts=2,
            longest_wait=0.01,
            progress=lambda event, answer: last.append((event, answer.status)),
        )
    assert counted == {204: 1, 400: 1, 500: 1}
    assert last == [(EVENT, 204), (EVENT, 400), (EVENT, 500)]
    assert not script


def test_reply_round_trips_over_http() -> None:
    with (
        EventReceiver(lambda _function, _event: Answer(200, reply=REPLY)) as receiver,
        delivering(receiver.url) as deliver,
    ):
        reply = deliver("cluster", EVENT).reply
    assert reply is not None
    assert json.loads(reply.to_json()) == json.loads(REPLY.to_json())


def test_ingress_closes_a_request_whose_body_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives in time, the whole body does not."""
    monkeypatch.setattr("events.bounded_server.TimedHandler.seconds", 0.3)
    taken: list[Event] = []
    ingress = Ingress(taken.append)
    ingress.start()
    try:
        with socket.create_connection(("127.0.0.1", ingress.port), timeout=HANGS) as sender:
            sender.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
            sender.settimeout(0.02)
            answer = b""
            while not answer:
                sender.sendall(b" ")
                with suppress(TimeoutError):
                    answer = sender.recv(100)
        assert answer.startswith(b"HTTP/1.1 400")
        assert taken == []
    finally:
        ingress.stop()


@pytest.mark.parametrize("begin", [b"P", b"POST / HTTP/1.1\r\nX: "])
def test_ingress_closes_a_request_whose_head_takes_too_long(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr("events.bounded_server.TimedHandler.seconds", 0.3)
    with (
        listening(lambda _event: None) as ingress,
        socket.create_connection(("127.0.0.1", ingress.port), timeout=HANGS) as sender,
    ):
        sender.sendall(begin)
        sender.settimeout(0.02)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                sender.sendall(b"x")
                assert sender.recv(100) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the connection is still held")


def test_ingress_keeps_an_idle_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.bounded_server.TimedHandler.seconds", 0.3)
    headers, body = EVENT.to_http()
    taken: list[Event] = []
    with listening(taken.append) as ingress, urllib3.PoolManager(retries=False) as http:
        assert http.request("POST", ingress.url, headers=headers, body=body).status == 202
        time.sleep(0.5)
        assert http.request("POST", ingress.url, headers=headers, body=body).status == 202
        assert http.connection_from_url(ingress.url).num_connections == 1
    assert taken == [EVENT] * 2


def test_ingress_closes_a_connection_that_waits_to_make_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.bounded_server.BoundedServer.connections", 2)
    ingress = Ingress(lambda _event: None)
    ingress.start()

    def asks(sender: socket.socket) -> bool:
        with suppress(ConnectionError):
            sender.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok\n") and (data := sender.recv(100)):
                answer += data
            return answer.startswith(b"HTTP/1.1 200")
        return False

    try:
        with ExitStack() as opened:
            address = ("127.0.0.1", ingress.port)
            first, second = (opened.enter_context(socket.create_connection(address, 30)) for _ in range(2))
            assert asks(first)
            assert asks(second)
            third = opened.enter_context(socket.create_connection(address, 30))
            assert asks(third)
            assert sorted([asks(first), asks(second)]) == [False, True]
    finally:
        ingress.stop()
