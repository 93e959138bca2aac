"""A proxy in front of a real API server (or object store) that causes faults, request by request.

A `Fault` is a function of one exchange, which may forward, answer, wait, or break the connection.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from shared.kube.connect import inline_credentials
from shared.kube.credentials import Credentials

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "host", "expect", "keep-alive"}
_READS = ("GET", "HEAD", "OPTIONS")


class Cut(Exception):
    """Ends a connection where it is raised, without an answer."""


@dataclass(frozen=True)
class Request:
    """A received request; `number` counts from 1 in order of arrival."""

    number: int
    method: str
    target: str
    """Path and query, as they were sent."""
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def watches(self) -> bool:
        return parse_qs(urlsplit(self.target).query).get("watch", ["false"])[0] in ("1", "true")

    @property
    def writes(self) -> bool:
        return self.method not in _READS

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Response:
    """A response; `headers` omits the hop-by-hop headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


class Exchange:
    """One request in progress."""

    def __init__(self, proxy: Proxy, request: Request, handler: BaseHTTPRequestHandler) -> None:
        self.request = request
        self.closing = proxy.closing
        self._proxy = proxy
        self._handler = handler

    def forward(self) -> Response:
        """Returns the response of the real server. Raises `Cut` if there is none."""
        answer = self._proxy.send(self.request, stream=False)
        headers = _passed_on(answer.headers)
        if self.request.method == "HEAD":  # the size of an object in storage
            headers |= {"Content-Length": answer.headers.get("Content-Length", "0")}
        return Response(answer.status, answer.data, headers)

    def answer(self, response: Response, *, part: float = 1.0) -> None:
        """Sends the response; with `part` below 1 only this part of the body, with the length of the whole."""
        handler = self._handler
        handler.send_response(response.status)
        for name, value in response.headers.items():
            handler.send_header(name, value)
        if handler.command != "HEAD":
            handler.send_header("Content-Length", str(len(response.body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(response.body[: int(len(response.body) * part)])
        if part < 1:
            raise Cut

    def stream(self, until: Callable[[], bool] = lambda: False) -> None:
        """Forwards a watch, chunk by chunk, and ends the connection once `until` is true and another chunk arrives."""
        answer = self._proxy.send(self.request, stream=True)
        handler = self._handler
        handler.close_connection = True  # the end of the connection is the end of the body
        handler.send_response(answer.status)
        for name, value in _passed_on(answer.headers).items():
            handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        try:
            while (piece := answer.read1(65536)) and not (self.closing.is_set() or until()):
                handler.wfile.write(piece)
        finally:
            answer.close()


Fault = Callable[[Exchange], None]


# -- faults ----------------------------------------------------------------------------------------------------


def healthy(exchange: Exchange) -> None:
    if exchange.request.watches:
        exchange.stream()
    else:
        exchange.answer(exchange.forward())


def cut_before(_exchange: Exchange) -> None:
    raise Cut


def cut_after(exchange: Exchange) -> None:
    """The server executes the request; the response is lost."""
    exchange.forward()
    raise Cut


def half_body(exchange: Exchange) -> None:
    exchange.answer(exchange.forward(), part=0.5)


def answering(status: int, body: bytes | Mapping[str, Any] = b"", **headers: str) -> Fault:
    """Answers in place of the server; header names have underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda exchange: exchange.answer(Response(status, data, {"Content-Type": "application/json"} | named))


def replacing(body: bytes, content_type: str = "application/json") -> Fault:
    """The server executes the request; the body of its response is replaced."""

    def fault(exchange: Exchange) -> None:
        exchange.answer(Response(exchange.forward().status, body, {"Content-Type": content_type}))

    return fault


def changing(change: Callable[[Any], Any]) -> Fault:
    """The server executes the request; the document in its response is what `change` makes of it."""

    def fault(exchange: Exchange) -> None:
        response = exchange.forward()
        body = json.dumps(change(json.loads(response.body))).encode() if response.status < 300 else response.body
        exchange.answer(Response(response.status, body, {"Content-Type": "application/json"}))

    return fault


def hanging(until: Event) -> Fault:
    """Sends no response; ends the connection when `until` is set or the proxy ends."""

    def fault(exchange: Exchange) -> None:
        while not (until.wait(0.05) or exchange.closing.is_set()):
            pass
        raise Cut

    return fault


def stalling(when: Event) -> Fault:
    """Forwards a watch, and nothing more once `when` is set: the connection stays open."""

    def fault(exchange: Exchange) -> None:
        if not when.is_set():
            exchange.stream(when.is_set)
        exchange.closing.wait()

    return fault


def slow(seconds: float, then: Fault = healthy) -> Fault:
    def fault(exchange: Exchange) -> None:
        exchange.closing.wait(seconds)
        then(exchange)

    return fault


def dripping(seconds: float) -> Fault:
    """Sends the response of the server byte by byte, with so many seconds between two bytes."""

    def fault(exchange: Exchange) -> None:
        response = exchange.forward()
        handler = exchange._handler
        handler.send_response(response.status)
        for name, value in response.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(response.body)))
        handler.end_headers()
        for byte in response.body:
            handler.wfile.write(bytes([byte]))
            if exchange.closing.wait(seconds):
                raise Cut

    return fault


# -- the server ------------------------------------------------------------------------------------------------


class Proxy:
    """Forwards requests, or applies the `Fault` that `fault` returns for one. `seen` has all requests."""

    def __init__(self, upstream: Credentials, port: int = 0) -> None:
        self.fault: Callable[[Request], Fault | None] = lambda _request: None
        self.seen: list[Request] = []
        self.closing = Event()
        self._upstream = upstream.host.rstrip("/")
        self._pool = upstream.pool(32)
        self._token = upstream.bearer()
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", port), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> bytes:
        """A kubeconfig for the API server behind the proxy, which adds the credentials."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "proxy",
                "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
                "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
                "users": [{"name": "proxy", "user": {}}],
            }
        ).encode()

    def heal(self) -> None:
        self.fault = lambda _request: None

    def fail(self, fault: Fault, when: Callable[[Request], bool] = lambda _request: True) -> None:
        self.fault = lambda request: fault if when(request) else None

    def writes(self) -> list[Request]:
        with self._lock:
            return [request for request in self.seen if request.writes]

    def close(self) -> None:
        """Refuses new connections and ends the present ones."""
        with self._lock:
            if self.closing.is_set():
                return
            self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._pool.clear()

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, request: Request, *, stream: bool) -> Any:
        import urllib3

        headers = _passed_on(request.headers)
        if self._token:  # in place of what the client sent
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            return self._pool.request(
                request.method,
                self._upstream + request.target,
                body=request.body or None,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=not stream,
                decode_content=False,
                timeout=urllib3.Timeout(connect=5, read=60),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Cut from error

    def _receive(self, handler: BaseHTTPRequestHandler) -> Request:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = dict(handler.headers.items())
        with self._lock:
            request = Request(len(self.seen) + 1, handler.command, handler.path, headers, body)
            self.seen.append(request)
        return request

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def serve(self) -> None:
                exchange = Exchange(proxy, proxy._receive(self), self)
                try:
                    (proxy.fault(exchange.request) or healthy)(exchange)
                except (Cut, OSError):
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores that a client closed its connection, as some tests do; anything else is a bug of the proxy."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def api_server(kubeconfig: Path) -> Credentials:
    return inline_credentials(kubeconfig.read_bytes())


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[Proxy]:
    """The tests' API server behind a proxy without faults; `proxy.kubeconfig` leads there."""
    with Proxy(api_server(kubeconfig)) as proxy:
        yield proxy


def object_store_server(url: str) -> Credentials:
    return Credentials(host=url)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
