"""Attacks by whoever reaches a port: of functions, of the hooks, of the forwarder's ingress."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

from events.ingress import Ingress
from events.replay import replay_to
from functions.cluster_hooks.protocol import API_VERSION
from shared.event import Event, change_event
from tests.support.hooks_server import HooksServer
from tests.support.ports import free_port
from tests.support.served import HTTP, Served, exchange, open_connections, read_all
from tests.support.until import HANGS, until

EVENT = change_event(
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "one"}}, "add", source="test"
)
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
BODY = HEAD + b"Content-Length: 1000\r\n\r\n{"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SLOW = {
    "nothing": b"",
    "one byte": b"P",
    "half a head": HEAD,
    "half a body": BODY,
    "half a chunk": CHUNKED + b"5\r\n{",
    "the end of a body that does not end": CHUNKED + b"7\r\n0\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.close()


@pytest.mark.parametrize("begin", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("count", [64, 600])
def test_slow_connections_do_not_keep_a_function_from_an_event(server: Served, count: int, begin: bytes) -> None:
    with open_connections(server.port, count, begin):
        assert server.post() == 204


def test_slow_requests_are_closed(server: Served) -> None:
    """All kinds at once: each sends a byte now and then, until the server answers or closes the connection."""

    def drip(begin: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANGS) as connection:
            connection.sendall(begin)
            connection.settimeout(0.5)
            while True:
                try:
                    return connection.recv(12)
                except TimeoutError:
                    if begin:
                        connection.sendall(b"x")
                except ConnectionError:
                    return b""

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(drip, [b"", b"P", HEAD, BODY]))
    assert answers == [b"", *[b"HTTP/1.1 408"] * 3]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"GET /" + b"x" * (21 << 20) + b" HTTP/1.1\r\n\r\n", 414, id="a request line of 21 MiB"),
        pytest.param(b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", 414, id="a request line of 5 kB"),
        pytest.param(HEAD + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n", 431, id="a header of 1 MiB"),
        pytest.param(HEAD + b"X: y\r\n" * 200_000 + b"\r\n", 431, id="200,000 headers"),
        pytest.param(HEAD + b"X: y\r\n" * 150 + b"\r\n", 431, id="150 headers"),
        pytest.param(HEAD + b"Content-Length: 99999999\r\n\r\n", 413, id="a body of 100 MB"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", 400, id="a negative length"),
        pytest.param(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, id="two lengths"),
        pytest.param(CHUNKED + b"ffffffff\r\n", 413, id="a chunk of 4 GiB"),
        pytest.param(CHUNKED + (b"10000\r\n" + bytes(65536) + b"\r\n") * 150, 413, id="chunks of 9 MiB"),
        pytest.param(CHUNKED + b"xyz\r\n", 400, id="a size that is no number"),
        pytest.param(CHUNKED + b"1" * 5000, 400, id="a size without an end"),
        pytest.param(CHUNKED + b"0\r\n" + b"X: y\r\n" * 50_000, 431, id="trailers of 300 kB"),
        pytest.param(b"\r\n\r\n", 400, id="empty lines"),
    ],
)
def test_request_that_is_too_long_or_invalid_is_refused_at_little_memory(
    server: Served, request_: bytes, status: int
) -> None:
    before = server.peak_mib()
    answer = exchange(server.port, request_)
    # The connection may be reset before the answer is read, as the client is still sending.
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or (not answer and len(request_) > 1 << 20), answer[:200]
    assert server.peak_mib() - before < (24 if b"chunked" in request_ else 4)
    assert server.post() == 204


def test_large_bodies_that_do_not_end_take_little_memory(own_server: Served) -> None:
    begin = HEAD + b"Content-Length: 8000000\r\n\r\n" + b" " * 7_900_000
    before = own_server.peak_mib()
    with open_connections(own_server.port, 24, begin):
        assert [own_server.post() for _ in range(20)] == [204] * 20
        assert own_server.peak_mib() - before < 64
    assert own_server.post() == 204


def test_clients_that_do_not_read_do_not_hold_threads(server: Served) -> None:
    asks = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
    with open_connections(server.port, 12, b""), ThreadPoolExecutor(12) as pool:
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=1.0) for _ in range(12)]
        try:
            for _ in pool.map(lambda connection: _send_some(connection, asks), connections):
                pass
            assert server.post() == 204
        finally:
            for connection in connections:
                connection.close()


def _send_some(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        return


def test_clients_that_do_not_close_do_not_hold_the_server(server: Served) -> None:
    ask = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with open_connections(server.port, 64, ask):
        started = time.monotonic()
        assert server.post() == 204
        assert time.monotonic() - started < 50  # 2 s for each of them otherwise


def test_sigterm_finishes_deliveries_refuses_others_and_ends_slow_connections(own_server: Served) -> None:
    with open_connections(own_server.port, 64, b"P"), open_connections(own_server.port, 64, BODY):
        with ThreadPoolExecutor(1) as pool:
            delivery = pool.submit(own_server.post, 5.0)
            time.sleep(1.0)  # the delivery has begun
            own_server.process.send_signal(signal.SIGTERM)
            until(lambda: _is_refused(own_server.port), "the refusal of connections")
            assert not delivery.done(), "connections are refused before the delivery ends"
            assert delivery.result(HANGS) == 204
        assert own_server.process.wait(HANGS) == 0


def _is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=HANGS).close()
    except ConnectionRefusedError:
        return True
    return False


def test_sigterm_ends_a_server_whose_delivery_does_not_end(own_server: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(own_server.post, 600.0)
        time.sleep(1.0)
        own_server.process.send_signal(signal.SIGTERM)
        own_server.process.wait(120)  # 25 s, on a busy machine
        with pytest.raises(urllib3.exceptions.HTTPError):
            delivery.result(HANGS)


def test_requests_on_one_connection_are_answered_in_order(server: Served) -> None:
    headers, body = EVENT.to_http()
    head = HEAD + "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n%x;x=y\r\n" % len(body) + body + b"\r\n0\r\nX: y\r\n\r\n"
    last = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    requests = whole + chunked + whole + last
    for size in (len(requests), 7):
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANGS) as connection:
            for start in range(0, len(requests), size):
                connection.sendall(requests[start : start + size])
            answers = read_all(connection)
        assert answers.count(b"HTTP/1.1 204") == 3
        assert answers.count(b"HTTP/1.1 200") == 1


def test_client_that_expects_a_continuation_gets_it_before_the_body(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANGS) as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
        assert connection.recv(25).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"{}")
        assert b"HTTP/1.1 400 " in read_all(connection)  # it is no event


def test_metrics_are_at_their_own_port_only(tmp_path: Path) -> None:
    port = free_port()
    served = Served(tmp_path, METRICS_PORT=str(port))
    try:
        assert served.post() == 204
        metrics = f"http://127.0.0.1:{port}"
        answer = HTTP.request("GET", f"{metrics}/metrics", timeout=HANGS)
        assert b'capi_functions_deliveries_total{function="slow",outcome="done"} 1.0' in answer.data
        assert HTTP.request("GET", f"{served.url}/metrics", timeout=HANGS).status == 404
        for path in ("/healthz", "/readyz", "/version"):
            assert HTTP.request("GET", served.url + path, timeout=HANGS).status != 404
            assert HTTP.request("GET", metrics + path, timeout=HANGS).status == 404
        assert replay_to(metrics, [EVENT], attempts=1) == {404: 1}
        with open_connections(port, 64, b"G"):
            assert HTTP.request("GET", f"{metrics}/metrics", timeout=HANGS).status == 200
    finally:
        served.close()


@pytest.mark.parametrize("begin", [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "a byte", "no TLS"])
def test_slow_handshakes_do_not_keep_hooks_from_a_call(tmp_path: Path, begin: bytes) -> None:
    hooks = HooksServer(tmp_path, tmp_path / "no.kubeconfig")
    hooks.start()
    try:
        with open_connections(hooks.port, 64, begin), hooks.client() as client:
            assert client.request("POST", f"/{API_VERSION}/discovery", body=b"{}", timeout=HANGS).status == 200
    finally:
        hooks.close()


@pytest.mark.parametrize("begin", [b"", b"P", BODY], ids=["nothing", "a byte", "half a body"])
def test_slow_connections_do_not_keep_the_ingress_from_an_event(begin: bytes) -> None:
    taken: list[Event] = []
    ingress = Ingress(taken.append)
    ingress.start()
    try:
        with open_connections(ingress.port, 600, begin):
            assert replay_to(ingress.url, [EVENT]) == {202: 1}
    finally:
        ingress.stop()
    assert taken == [EVENT]
