"""Receives CloudEvents over HTTP, in binary or structured mode: from Knative sources and brokers, the sweep, replays.

It answers 202 as soon as an event is queued, so that a slow function does not delay its source.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from shared.event import Event, EventError, from_http
from shared.http_request import BYTES_PER_SECOND, MAX_BODY
from shared.memory_budget import BUDGET, MemoryBusy
from shared.network import deadline
from shared.runtime import callers

from .bounded_server import BoundedServer, ServerThread, TimedHandler
from .dispatcher import QueueFull

_PART = 1 << 17
"""Bytes of a body that are read at a time, so that memory is only reserved for bytes that arrive."""


class Ingress(ServerThread):
    """An HTTP server that hands each event to `submit`.

    Args:
        submit: Called with each event, in the thread of its connection.
        host: Address to listen at.
        port: Port to listen at; 0 for a free one.
        listener: A listening socket to use instead of host and port.
        token: The file with the token that senders need, None if they need none.
        is_ready: Whether events are accepted; otherwise the answer is 503, also to a readiness probe.
    """

    def __init__(
        self,
        submit: Callable[[Event], object],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
        token: Path | None = None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(_Server(submit, (host, port), listener, token, is_ready), "ingress")
        address = self._server.socket.getsockname()
        self.url = f"http://{host if listener is None else address[0]}:{self.port}/"


class _Server(BoundedServer):
    def __init__(
        self,
        submit: Callable[[Event], object],
        address: tuple[str, int],
        listener: socket.socket | None,
        token: Path | None,
        is_ready: Callable[[], bool],
    ) -> None:
        self.submit = submit
        self.token = token
        self.is_ready = is_ready
        super().__init__(address, _Handler, listener)


class _Handler(TimedHandler):
    server: _Server

    def _is_refused(self) -> bool:
        """Refuses a request from an unauthorized sender, and returns whether it was refused."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        address = str(self.server.server_address[0])
        answer = callers.refusal(self.command, headers, address, self.server.token)
        if answer is not None:
            self.close_connection = True
            with suppress(EventError, ValueError, TimeoutError, MemoryBusy), ExitStack() as self._reserved:
                self._body()  # otherwise the client may get a reset in place of the answer
            self.answer(answer.status, answer.message)
        return answer is not None

    def do_GET(self) -> None:
        if self._is_refused():
            return
        if self.server.is_ready():
            self.answer(200, "ok")
        else:
            self.answer(503, "in standby")

    def do_POST(self) -> None:
        if self._is_refused():
            return
        try:
            with ExitStack() as self._reserved:
                body = self._body()
                self.has_arrived()
            event = from_http(dict(self.headers.items()), bytes(body))
        except MemoryBusy as error:
            self.close_connection = True
            self.answer(503, str(error))
            return
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

    def _body(self) -> bytearray:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        return self._read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytearray:
        body = bytearray()
        while size := int(self._line(len(body)).split(b";")[0], 16):
            body += self._read(size, len(body))
            self._line(len(body))
        while self._line(len(body)).strip():  # trailers
            pass
        return body

    def _line(self, before: int) -> bytes:
        with self._in_time(before):
            return self.rfile.readline(1000)

    def _read(self, size: int, before: int = 0) -> bytearray:
        if size < 0 or size + before > MAX_BODY:
            raise EventError(f"the body is larger than {MAX_BODY >> 20} MiB")
        body = bytearray()
        while len(body) < size:
            if before + len(body):
                self._reserved.enter_context(BUDGET.reserved(2 * _PART))
            with self._in_time(before + len(body)):
                piece = self.rfile.read(min(size - len(body), _PART))
            if not piece:
                raise EventError("the body is shorter than announced")
            body += piece
        return body

    def _in_time(self, received: int) -> AbstractContextManager[None]:
        """Returns the deadline for more of a body of which `received` bytes have arrived."""
        return deadline(self.body_began + self.seconds + received / BYTES_PER_SECOND)
