"""A small HTTP server with limits: connections at a time, and deadlines for each request."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shared.http_request import SECONDS
from shared.network import deadline, timed

log = logging.getLogger("capi-functions.events")


class BoundedServer(ThreadingHTTPServer):
    """Serves each connection in a thread, up to a limit. The longest waiting connection makes room for a new one.

    Args:
        address: Host and port to listen at; the port is 0 for a free one.
        handler: Handles the requests.
        listener: A listening socket to use instead of `address`.
    """

    connections = 512
    """Connections at a time: each has a thread."""

    daemon_threads = True
    block_on_close = False  # a sender may keep its connection open
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: type[TimedHandler], listener: socket.socket | None = None
    ) -> None:
        self.waiting: dict[socket.socket, None] = {}
        """The connections without a complete request, in the order in which they began to wait."""
        self._free = threading.BoundedSemaphore(self.connections)
        super().__init__(address, handler, bind_and_activate=listener is None)
        if listener is not None:
            self.socket.close()
            self.socket = listener
            self.server_address = listener.getsockname()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection, whose reads and writes obey deadlines."""
        accepted, address = super().get_request()
        return timed(accepted), address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread, or closes it if there are too many with a request in progress."""
        if self._free.acquire(blocking=False) or self._make_room():
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self) -> bool:
        """Ends the longest waiting connection, and returns whether there is room for a new connection."""
        with suppress(StopIteration, RuntimeError, OSError):  # its own thread may end it meanwhile
            next(iter(self.waiting)).shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=1.0)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as it is called
        """Logs the exception of a request."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):  # the sender closed the connection, or it missed a deadline
            log.debug("the connection from %s ended: %s", client_address, type(error).__name__)
        else:
            log.exception("a request from %s failed", client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection, in the thread of the connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class ServerThread:
    """A server that serves in a thread of its own; `port` is where it listens.

    Args:
        server: The server, which listens already.
        name: The name of the thread.
    """

    def __init__(self, server: BoundedServer, name: str) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), name=name, daemon=True)
        self.port: int = server.socket.getsockname()[1]

    def start(self) -> None:
        """Starts the server."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the server, and closes the socket."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class TimedHandler(BaseHTTPRequestHandler):
    """Handles requests whose heads must arrive within a deadline."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120.0
    seconds = SECONDS
    """The deadline for the head of a request, and then, with the time that its size gives it, for its body."""
    server: BoundedServer

    def handle_one_request(self) -> None:
        """Sets a deadline for the request from its first byte on; the connection may be idle before it."""
        self.server.waiting[self.connection] = None
        try:
            self.rfile.peek(1)  # type: ignore[attr-defined] # it is buffered
            with ExitStack() as self._head:
                self._head.enter_context(deadline(time.monotonic() + self.seconds))
                super().handle_one_request()
        except TimeoutError:
            self.close_connection = True
        finally:
            self.has_arrived()

    def has_arrived(self) -> None:
        """Keeps the connection, whose request is complete, from making room for a new connection."""
        self.server.waiting.pop(self.connection, None)

    def parse_request(self) -> bool:
        """Reads the head of a request."""
        try:
            return super().parse_request()
        finally:
            self._head.close()  # the body has its own deadline
            self.body_began = time.monotonic()

    def answer(self, status: int, message: str = "") -> None:
        """Sends a response with a line of text, or without a body."""
        self.answer_with(status, (message + "\n").encode() if message else b"", "text/plain; charset=utf-8")

    def answer_with(self, status: int, body: bytes, content_type: str) -> None:
        """Sends a response."""
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if body:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs a request."""
        log.debug(format, *args)
