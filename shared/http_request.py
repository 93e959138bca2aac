"""Finds out, from the bytes received so far, whether an HTTP request has arrived as a whole.

A server's loop feeds an `ArrivingRequest` for each connection, and passes complete requests to threads, so that no
thread waits for the rest of a request. Framing follows RFC 9112, sections 6 and 7. The server's parser, which gets all
bytes of the request, reports all other errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LINE = 4094
"""Bytes of the request line, gunicorn's limit."""
MAX_HEAD = 64 << 10
"""Bytes of request line and headers together."""
MAX_BODY = 8 << 20
"""Bytes of a body. Objects in Kubernetes have at most 3 MiB."""
SECONDS = 10.0
"""Seconds for a whole request, besides the seconds for its size."""
BYTES_PER_SECOND = 256 << 10
"""Each such number of received bytes extends the deadline by one second."""

_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,18})[ \t]*\r")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[^\r\n]*chunked")
_EXPECTS = re.compile(rb"(?im)^expect:[ \t]*100-continue")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}[ \t]*(;[^\r\n]*)?")
_MAX_SIZE_LINE = 1024
_MAX_TRAILERS = 8 << 10
_MAX_FRAMED = MAX_BODY + MAX_BODY // 8
"""Bytes of a body with the sizes of its chunks."""
_PIECE = 64 << 10
_TOO_LARGE = f"the body is larger than {MAX_BODY >> 20} MiB"


class RequestRefused(Exception):
    """The request is not received further; the response has `status`."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ArrivingRequest:
    """One request of a connection, and the bytes received after it.

    Attributes:
        received: All bytes received, in order.
        expects_continue: Whether the client waits for `100 Continue` before it sends the body.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self.expects_continue = False
        self._head = 0
        """The length of the head with the empty line that ends it; 0 until it is complete."""
        self._end: int | None = None
        """The length of the request once that is known."""
        self._chunk = 0
        """Where the size of the next chunk begins; 0 if the body is not chunked."""

    @property
    def seconds(self) -> float:
        """The seconds from the start of the request to its deadline."""
        return SECONDS + len(self.received) / BYTES_PER_SECOND

    def feed(self, data: bytes) -> bool:
        """Adds received bytes. Returns whether the request is complete.

        Raises:
            RequestRefused: The request is too long, or the sizes of its chunks are not valid.
        """
        before = len(self.received)
        self.received += data
        if not self._head:
            self._find_head(before)
        if self._chunk and self._end is None:
            self._follow_chunks()
        return self._end is not None and len(self.received) >= self._end

    def take(self) -> tuple[Iterator[bytes], bytes]:
        """Returns the complete request in pieces, the head being the first, and the bytes behind the request."""
        rest = bytes(self.received[self._end :])
        del self.received[self._end :]
        return _pieces(self.received, self._head), rest

    def _find_head(self, before: int) -> None:
        end = self.received.find(b"\r\n\r\n", max(0, before - 3))
        line = self.received.find(b"\n", 0, MAX_LINE + 4)
        if line < 0 and len(self.received) > MAX_LINE + 2:
            raise RequestRefused(414, f"the request line is longer than {MAX_LINE} bytes")
        if (end if end >= 0 else len(self.received)) > MAX_HEAD:
            raise RequestRefused(431, f"the headers are longer than {MAX_HEAD >> 10} KiB")
        if end < 0:
            return
        self._head = end + 4
        head = bytes(self.received[: self._head])
        self.expects_continue = _EXPECTS.search(head) is not None
        if _CHUNKED.search(head):
            self._chunk = self._head
            return
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        if length > MAX_BODY:
            raise RequestRefused(413, _TOO_LARGE)
        self._end = self._head + length

    def _follow_chunks(self) -> None:
        while self._chunk < len(self.received):
            line_end = self.received.find(b"\r\n", self._chunk, self._chunk + _MAX_SIZE_LINE)
            if line_end < 0:
                if len(self.received) - self._chunk >= _MAX_SIZE_LINE:
                    raise RequestRefused(400, "the size of a chunk does not end")
                return
            line = bytes(self.received[self._chunk : line_end])
            if not _SIZE.fullmatch(line):
                raise RequestRefused(400, "the size of a chunk is not a hexadecimal number")
            size = int(line.partition(b";")[0], 16)
            if not size:
                self._find_end(line_end)
                return
            self._chunk = line_end + 2 + size + 2
            if self._chunk - self._head > _MAX_FRAMED:
                raise RequestRefused(413, _TOO_LARGE)

    def _find_end(self, last_chunk: int) -> None:
        """Finds the empty line behind the last chunk and the trailers; `last_chunk` is the end of the chunk's size."""
        end = self.received.find(b"\r\n\r\n", last_chunk, last_chunk + _MAX_TRAILERS)
        if end >= 0:
            self._end = end + 4
        elif len(self.received) - last_chunk >= _MAX_TRAILERS:
            raise RequestRefused(431, f"the trailers are longer than {_MAX_TRAILERS >> 10} KiB")


def _pieces(request: bytearray, head: int) -> Iterator[bytes]:
    """Yields head and body, and frees what was yielded."""
    size = head
    while request:
        yield bytes(request[:size])
        del request[:size]
        size = _PIECE
