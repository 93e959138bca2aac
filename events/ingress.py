"""Takes in CloudEvents from outside, in binary or structured mode: a Knative source or broker, the sweep, a replay.

The answer is 202 as soon as the event is queued; what becomes of it is the queue's business, and a source is never
held up by a slow function.
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

log = logging.getLogger("capi-functions.events")

_LARGEST = 8 << 20
_SECONDS = 30.0
"""For the head of a request to arrive, and then for its body, however slowly their parts come."""
_CONNECTIONS = 512
"""At a time: each has a thread."""


class Ingress:
    """An HTTP server that hands each event to `submit`. `listener` is a listening socket to use instead of a port."""

    def __init__(
        self,
        submit: Callable[[Event], object],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
    ) -> None:
        self._server = _Server(submit, (host, port), listener)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="ingress", daemon=True)
        address = self._server.socket.getsockname()
        self.port: int = address[1]
        self.url = f"http://{host if listener is None else address[0]}:{self.port}/"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a sender may keep its connection open as long as it likes
    request_queue_size = 128

    def __init__(
        self, submit: Callable[[Event], object], address: tuple[str, int], listener: socket.socket | None
    ) -> None:
        self.submit = submit
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
        if isinstance(error, OSError):  # a sender that went away, or was cut off
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
        """The connection may rest until a request begins, but not in the midst of one."""
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
            self._head.close()  # what follows has a deadline of its own

    def do_GET(self) -> None:
        self._answer(200, "ok")

    def do_POST(self) -> None:
        try:
            with deadline(time.monotonic() + _SECONDS):
                body = self._body()
            event = from_http(dict(self.headers.items()), body)
        except (EventError, ValueError, TimeoutError) as error:
            self.close_connection = True  # what is left of the body is not worth reading
            self._answer(400, str(error))
            return
        self.server.submit(event)
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
        if size < 0 or size + before > _LARGEST:
            raise EventError(f"the body is larger than {_LARGEST >> 20} MiB")
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
