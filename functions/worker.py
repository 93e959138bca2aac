"""The gunicorn worker of functions: a thread gets a request once the request has arrived as a whole.

gunicorn's own threads receive requests, so a few slow connections can occupy all threads. Here the main loop receives
requests and TLS handshakes from all connections without blocking, and closes late connections. So a slow client costs
only a socket and its bytes, both within limits. At the limit of connections the oldest waiting one is closed; at the
limit of bytes, the largest incomplete request.

After SIGTERM the worker closes its sockets, finishes the deliveries in progress, and gives requests that are arriving
two seconds. `serving.graceful_timeout` bounds all of this.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn import http, sock
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from shared.http_request import SECONDS, ArrivingRequest, RequestRefused

METRICS_PORT = "METRICS_PORT"
"""The variable with the port of the metrics; no other port serves them."""

_MAX_WAITING = 256
"""Connections that are idle, or whose request has not arrived as a whole."""
_MAX_HELD = 32 << 20
"""Bytes of requests that are arriving, waiting for a thread, or in progress."""
_SMALL = 64 << 10
"""Requests up to this size are not refused to make room."""
_READ = 64 << 10
_SEND_SECONDS = 10.0
"""Seconds for the client to take a response."""
_LINGER = 2.0
"""Seconds for the client to take the response and close the connection, as RFC 9112 section 9.6 wants it."""

_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Sending:
    """A mixin for sockets whose blocking mode has a timeout. A client that does not read must not hold a thread."""

    def setblocking(self, flag: bool) -> None:
        self.settimeout(_SEND_SECONDS if flag else 0.0)  # type: ignore[attr-defined]

    def sendall(self, *arguments: Any) -> None:
        try:
            super().sendall(*arguments)  # type: ignore[misc]
        except TimeoutError as error:  # gunicorn ignores a broken pipe, and logs other errors with their trace
            raise BrokenPipeError(errno.EPIPE, "the client does not read the response") from error


class _Socket(_Sending, socket.socket):
    pass


class _TlsSocket(_Sending, ssl.SSLSocket):
    pass


class _Connection(TConn):  # type: ignore[misc] # gunicorn has no types
    """A connection, with the request that is arriving on it."""

    def __init__(self, cfg: Any, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(cfg, client, address, server)
        self.initialized = True  # gunicorn must not set it up for its own way of reading
        self.begin(SECONDS)

    def begin(self, idle: float) -> None:
        """Prepares for the next request, whose first byte may take `idle` seconds."""
        self.request = ArrivingRequest()
        self.rest = b""
        """The bytes received after the request that a thread handles."""
        self.size = 0
        """Bytes of the request that count for `_MAX_HELD`."""
        self.is_closing = False
        self.began = time.monotonic()
        self._idle = idle

    def close_soon(self) -> None:
        """Ends the response, and waits for the client to close the connection."""
        self.begin(_LINGER)
        self.is_closing = True

    @property
    def deadline(self) -> float:
        """When the connection is closed unless its request is complete, in seconds of the monotonic clock."""
        return self.began + (self.request.seconds if self.request.received else self._idle)

    def receive(self) -> bool:
        """Receives available bytes without blocking. Returns whether the request is complete.

        Raises OSError if the connection has failed, `RequestRefused` if the request is too long.
        """
        try:
            if isinstance(self.sock, ssl.SSLSocket) and not self.is_closing and self.sock.version() is None:
                self.sock.do_handshake()
            while data := self.sock.recv(_READ):
                if self.is_closing or self.feed(data):
                    return not self.is_closing
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        raise ConnectionResetError(errno.ECONNRESET, "the client closed the connection")

    def feed(self, data: bytes) -> bool:
        """Adds bytes of the request. Returns whether it is complete."""
        had_head = self.request.expects_continue
        complete = self.request.feed(data)
        if self.request.expects_continue and not had_head and not complete:
            with suppress(OSError):
                self.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return complete


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """See the module."""

    sockets: list[Any]
    wsgi: _Application

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting: dict[_Connection, None] = {}
        """In the order in which they began to wait."""
        self._held = 0
        self._metrics: socket.socket | None = None
        self._ends = float("inf")

    def init_process(self) -> None:
        """Opens the port of the metrics, and serves until the end."""
        if port := os.environ.get(METRICS_PORT):
            self._metrics = socket.create_server(("", int(port)), reuse_port=True)
            self.sockets = [*self.sockets, self._metrics]
        super().init_process()

    def load_wsgi(self) -> None:
        """Loads the application; requests at the port of the metrics do not reach it."""
        super().load_wsgi()
        if self._metrics is not None:
            self.wsgi = _with_metrics(self.wsgi, str(self._metrics.getsockname()[1]))

    # -- connections ---------------------------------------------------------------------------------------------

    def accept(self, listener: Any) -> None:
        """Accepts a connection, and waits for its first request."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                if self._waiting:  # the new one is accepted in the next round of the loop
                    self._drop(next(iter(self._waiting)))
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return
        client = _Socket(fileno=client.detach())
        client.setblocking(False)
        try:
            if self.cfg.is_ssl and listener is not self._metrics:
                context = sock.ssl_context(self.cfg)  # reads the certificate, which may have been renewed
                context.sslsocket_class = _TlsSocket
                client = context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        except OSError as error:  # the client has gone, or the certificate is being written
            self.log.warning("a connection failed: %s", error)
            client.close()
            return
        self.nr_conns += 1
        self._wait(_Connection(self.cfg, client, address, listener.getsockname()))

    def _wait(self, connection: _Connection) -> None:
        """Waits for bytes of the client."""
        self._waiting[connection] = None
        connection.sock.setblocking(False)
        self.poller.register(connection.sock, selectors.EVENT_READ, partial(self._on_readable, connection))
        if len(self._waiting) > _MAX_WAITING:
            self._drop(next(iter(self._waiting)))

    def _stop_waiting(self, connection: _Connection) -> None:
        del self._waiting[connection]
        with suppress(OSError, KeyError, ValueError):
            self.poller.unregister(connection.sock)

    def _on_readable(self, connection: _Connection, _socket: Any) -> None:
        if connection not in self._waiting:  # closed in this round of the loop, to make room
            return
        try:
            complete = connection.receive()
        except RequestRefused as refused:
            self._refuse(connection, refused.status, str(refused))
            return
        except (OSError, ValueError):  # SSLError is an OSError
            self._drop(connection)
            return
        self._received(connection, complete)

    def _received(self, connection: _Connection, complete: bool) -> None:
        """Counts the received bytes, passes a complete request to a thread, and enforces the limit of bytes."""
        size = len(connection.request.received)
        self._held += size - connection.size
        connection.size = size
        if complete:
            self._hand_over(connection)
        while self._held > _MAX_HELD and self._waiting:
            largest = max(self._waiting, key=lambda waiting: waiting.size)
            if largest.size <= _SMALL:
                return
            self._refuse(largest, 503, "too many large requests arrive at the same time")

    def _hand_over(self, connection: _Connection) -> None:
        """Passes a complete request to a thread."""
        self._stop_waiting(connection)
        pieces, connection.rest = connection.request.take()
        connection.parser = http.get_parser(self.cfg, pieces, connection.client)
        self.enqueue_req(connection)

    def finish_request(self, conn: _Connection, fs: Future[Any]) -> None:
        """Waits for the next request of a connection, or for its end, after a thread has handled a request."""
        if fs.cancelled() or fs.exception() is not None or fs.result() is not True:
            self._close_soon(conn)
            return
        self._held -= conn.size
        rest = conn.rest
        conn.begin(self.cfg.keepalive)
        self._wait(conn)
        try:
            complete = bool(rest) and conn.feed(rest)
        except RequestRefused as refused:
            self._refuse(conn, refused.status, str(refused))
            return
        self._received(conn, complete)

    # -- the end of connections ----------------------------------------------------------------------------------

    def _refuse(self, connection: _Connection, status: int, reason: str) -> None:
        """Answers a request that did not arrive."""
        self._stop_waiting(connection)
        body = f"{reason}\n"
        again = "Retry-After: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{again}Connection: close\r\n"
        head += f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        with suppress(OSError):
            connection.sock.send((head + body).encode())
        self._close_soon(connection)

    def _close_soon(self, connection: _Connection) -> None:
        self._held -= connection.size
        connection.close_soon()
        try:
            connection.sock.shutdown(socket.SHUT_WR)
            self._wait(connection)
        except (OSError, ValueError):
            self._close(connection)

    def _drop(self, connection: _Connection) -> None:
        self._stop_waiting(connection)
        self._held -= connection.size
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        self.nr_conns -= 1
        with suppress(OSError):
            connection.sock.close()

    def murder_pending(self) -> None:
        """Closes late connections; gunicorn's loop calls this at least once a second."""
        now = time.monotonic()
        for connection in list(self._waiting):
            if now <= min(connection.deadline, max(self._ends, connection.began + STOP_KEEPALIVE_LINGER)):
                continue
            if connection.request.received:
                self._refuse(connection, 408, "the request did not arrive in time")
            else:
                self._drop(connection)

    def _cap_keepalive(self, deadline: float) -> None:
        """Begins the shutdown: refuses new connections. gunicorn calls this to stop the worker."""
        self._ends = deadline
        for listener in self.sockets:
            listener.close()


def _with_metrics(application: _Application, port: str) -> _Application:
    """Returns an application that serves only the metrics at this port."""

    def serve(request: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if request["SERVER_PORT"] != port:
            return application(request, start_response)
        from shared import metrics

        if (request["REQUEST_METHOD"], request["PATH_INFO"]) == ("GET", "/metrics"):
            body = metrics.exposition()
            start_response("200 OK", [("Content-Type", metrics.CONTENT_TYPE), ("Content-Length", str(len(body)))])
        else:
            body = b"this port has /metrics only\n"
            start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]

    return serve
