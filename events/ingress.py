"""Receives CloudEvents over HTTP, in binary or structured mode: from Knative sources and brokers, the sweep, replays.

It answers 202 as soon as an event is queued, so that a slow function does not delay its source.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from shared.event import Event, EventError, from_http
from shared.network import deadline

from .bounded_server import BoundedServer, TimedHandler
from .dispatcher import QueueFull

_MAX_BYTES = 8 << 20


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


class _Server(BoundedServer):
    def __init__(
        self,
        submit: Callable[[Event], object],
        address: tuple[str, int],
        listener: socket.socket | None,
        is_ready: Callable[[], bool],
    ) -> None:
        self.submit = submit
        self.is_ready = is_ready
        super().__init__(address, _Handler, listener)


class _Handler(TimedHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.server.is_ready():
            self.answer(200, "ok")
        else:
            self.answer(503, "in standby")

    def do_POST(self) -> None:
        try:
            with deadline(time.monotonic() + self.seconds):
                body = self._body()
            event = from_http(dict(self.headers.items()), body)
        except (EventError, ValueError, TimeoutError) as error:
            self.close_connection = True  # do not read the rest of the body
            self.answer(400, str(error))
            return
        if not self.server.is_ready():
            self.answer(503, "in standby")
            return
        try:
            self.server.submit(event)
        except QueueFull as error:
            self.answer(503, str(error))
            return
        self.answer(202)

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
