"""Receives CloudEvents over HTTP, in binary or structured mode: from Knative sources and brokers, the sweep, replays.

It answers 202 as soon as an event is queued, so that a slow function does not delay its source.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shared.event import Event, EventError, from_http
from shared.network import deadline, timed

from .dispatcher import QueueFull

log = logging.getLogger("capi-functions.events")

_MAX_BYTES = 8 << 20
_SECONDS = 30.0
"""The deadline for the head of a request, and then for its body."""
_CONNECTIONS = 512
"""Connections at a time: each has a thread."""


class Ingress:
    """An HTTP server that hands each event to `submit`.

    Args:
        submit: Called with each event, in the thread of its connection.
        host: Address to listen at.
        port: Port to listen at; 0 for a free one.
        listener: A listening socket to use instead of host and port.
        is_ready: Whether events are accepted; otherwise the answer is 503, also to a readiness probe.
    """

    def __init__(
        self,
        submit: Callable[[Event], object],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._server = _Server(submit, (host, port), listener, is_ready)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="ingress", daemon=True)
        address = self._server.socket.getsockname()
        self.port: int = address[1]
        self.url = f"http://{host if listener is None else address[0]}:{self.port}/"

    def start(self) -> None:
        """Starts to receive events."""
        self._thread.start()

    def stop(self) -> None:
        """Stops to receive events and closes the socket."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a sender may keep its connection open
    request_queue_size = 128

    def __init__(
        self,
        submit: Callable[[Event], object],
        address: tuple[str, int],
        listener: socket.socket | None,
        is_ready: Callable[[], bool],
    ) -> None:
        self.submit = submit
        self.is_ready = is_ready
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler, bind_and_activate=listener is None)
        if listener is not None:
            self.socket.close()
            self.socket = listener
            self.server_address = listener.getsockname()

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = super().get_request()
        return timed(accepted), address

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as it is called
        error = sys.exc_info()[1]
        if isinstance(error, OSError):  # the sender closed the connection, or it missed a deadline
            log.debug("the connection from %s ended: %s", client_address, type(error).__name__)
        else:
            log.exception("a request from %s failed", client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120.0
    server: _Server

    def handle_one_request(self) -> None:
        """Sets a deadline for the request from its first byte on; the connection may be idle before it."""
        try:
            self.rfile.peek(1)  # type: ignore[attr-defined] # it is buffered
        except TimeoutError:
            self.close_connection = True
            return
        with ExitStack() as self._head:
            self._head.enter_context(deadline(time.monotonic() + _SECONDS))
            super().handle_one_request()

    def parse_request(self) -> bool:
        try:
            return super().parse_request()
        finally:
            self._head.close()  # the body has its own deadline

    def do_GET(self) -> None:
        if self.server.is_ready():
            self._answer(200, "ok")
        else:
            self._answer(503, "in standby")

    def do_POST(self) -> None:
        try:
            with deadline(time.monotonic() + _SECONDS):
                body = self._body()
            event = from_http(dict(self.headers.items()), body)
        except (EventError, ValueError, TimeoutError) as error:
            self.close_connection = True  # do not read the rest of the body
            self._answer(400, str(error))
            return
        if not self.server.is_ready():
            self._answer(503, "in standby")
            return
        try:
            self.server.submit(event)
        except QueueFull as error:
            self._answer(503, str(error))
            return
        self._answer(202)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        return self._read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(100).split(b";")[0], 16):
            body += self._read(size, len(body))
            self.rfile.readline(3)
        while self.rfile.readline(1000).strip():  # trailers
            pass
        return body

    def _read(self, size: int, before: int = 0) -> bytes:
        if size < 0 or size + before > _MAX_BYTES:
            raise EventError(f"the body is larger than {_MAX_BYTES >> 20} MiB")
        return self.rfile.read(size)

    def _answer(self, status: int, message: str = "") -> None:
        body = (message + "\n").encode() if message else b""
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
