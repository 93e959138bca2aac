"""Sends requests to one API server and reads the responses, within limits in time and size, whatever their status."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from .. import fairness, memory_budget, tracing
from . import spans
from .causes import cause
from .circuit_breaker import CircuitBreaker, NotSent
from .credentials import Credentials
from .errors import TooLarge, Unavailable

Cluster = Literal["management", "workload"]

_CONNECTIONS = 16
"""Idle connections that are kept."""
_PART = 1 << 20
"""Bytes of a response that are read at a time: memory is reserved for a longer one as it arrives."""


@dataclass(frozen=True)
class ResponseLimits:
    """Limits of one request: seconds until it is complete, and bytes of its response, or of one line of a watch."""

    seconds: float
    bytes: int


LIMITS: Mapping[Cluster, ResponseLimits] = {
    "management": ResponseLimits(30.0, 16 << 20),
    "workload": ResponseLimits(10.0, 8 << 20),
}


@dataclass(frozen=True)
class ListLimits:
    """Limits of all pages of one list together."""

    pages: int
    objects: int
    bytes: int


LIST_LIMITS: dict[Cluster, ListLimits] = {
    "management": ListLimits(20_000, 1_000_000, 4 << 30),
    "workload": ListLimits(2_000, 100_000, 128 << 20),
}


class Request(NamedTuple):
    """A request as it is sent."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    data: bytes | None = None
    content_type: str = ""
    accept: str = "application/json"


class Response(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to one API server; safe to share between threads.

    Args:
        credentials: The server, and the user.
        cluster: Selects `LIMITS`, and is the label of the requests in metrics. The server of a workload cluster is not
            trusted, so requests to it have a circuit breaker.
        timeout: Seconds to connect, and seconds without data; `LIMITS` apply to a whole request.
        user_agent: The header of this name.
    """

    def __init__(
        self, credentials: Credentials, cluster: Cluster, timeout: tuple[float, float], user_agent: str
    ) -> None:
        self.credentials = credentials
        self.cluster: Cluster = cluster
        self.host: str = credentials.host.rstrip("/")
        self.limits = LIMITS[cluster]
        self.timeout = timeout
        self._user_agent = user_agent
        self._pool = credentials.pool(_CONNECTIONS, trusted=cluster == "management")
        self._breaker = CircuitBreaker() if cluster == "workload" else None
        self._until = float("inf")
        self._delivery: fairness.Delivery | None = None
        self._sent = [0]

    @property
    def sent(self) -> int:
        """The number of requests sent so far."""
        return self._sent[0]

    def within(self, seconds: float) -> Transport:
        """Returns a view of these connections whose requests must all be complete within `seconds` from now."""
        view = copy.copy(self)
        view._until = self.latest(seconds)
        view._delivery = fairness.current()  # the worker threads of a sync have no delivery
        return view

    def latest(self, seconds: float) -> float:
        """Returns the moment until which a request of at most `seconds` must be complete."""
        return min(self._until, time.monotonic() + seconds)

    def exchange(self, request: Request, subject: str) -> Response:
        """Sends a request and reads the response, once.

        Raises `Unavailable` without a complete response, `NotSent` without a request, or `TooLarge`; the messages
        begin with `subject` or the host.
        """
        from ..network import deadline

        now, seconds = time.monotonic(), self.limits.seconds
        if self._breaker:
            seconds = fairness.SHARES.patience(self._delivery or fairness.current(), seconds)
        if now >= self._until:
            if self._breaker:
                self._breaker.record_overrun()
            raise NotSent(f"{subject}: earlier requests to {self.host} used up the time limit", retry_after=1.0)
        with (
            spans.of_request(request.method, request.path, self.cluster) as span,
            self._admitted(),
            deadline(self.latest(seconds)),
        ):
            response = self.open(request)
            spans.describe_response(span, response.status)
            return Response(response.status, response.headers, self.read(response, subject))

    def open(self, request: Request, *, silence: float | None = None) -> Any:
        """Sends a request and returns urllib3's response, whose body is unread.

        `silence` replaces the seconds without data. Raises `Unavailable` if the server does not answer.
        """
        import urllib3

        from .. import metrics

        url = self.host + request.path + ("?" + urlencode(request.query) if request.query else "")
        headers = {"Accept": request.accept, "User-Agent": self._user_agent, **tracing.headers()}
        if request.data is not None:
            headers["Content-Type"] = request.content_type
        if token := self.credentials.bearer():
            headers["Authorization"] = f"Bearer {token}"
        self._sent[0] += 1
        metrics.REQUESTS.labels(self.cluster, request.method).inc()
        connect, read = self.timeout
        try:
            return self._pool.request(
                request.method,
                url,
                body=request.data,
                headers=headers,
                timeout=urllib3.Timeout(connect=connect, read=silence or read),
                pool_timeout=connect,
                preload_content=False,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.host} does not answer: {cause(error)}") from error

    def read(self, response: Any, subject: str) -> bytes:
        """Returns the body of an open response. Raises `Unavailable` if it is not complete, or `TooLarge`."""
        import urllib3

        most, body, complete = self.limits.bytes, bytearray(), False
        try:
            with ExitStack() as held:
                # No encoding was requested. Only a read up to the end shows whether the body is complete.
                while not complete and len(body) <= most:
                    if body:
                        held.enter_context(memory_budget.BUDGET.reserved(2 * _PART))
                    part = response.read(min(_PART, most + 1 - len(body)), decode_content=False)
                    body += part
                    complete = not part or response.length_remaining == 0
                received = bytes(body)
        except memory_budget.MemoryBusy as error:
            response.close()
            raise Unavailable(f"{subject}: there is no memory for the response now: {error}", retry_after=2.0) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            raise Unavailable(f"{self.host} does not answer: {cause(error)}") from error
        if len(body) > most:
            response.close()
            response.release_conn()
            raise TooLarge(f"{subject}: the response is larger than {most >> 20} MiB")
        return received

    def close(self) -> None:
        """Closes all connections, busy connections after their request. A later request opens a new connection."""
        self._pool.clear()

    def _admitted(self) -> AbstractContextManager[None]:
        """Admits a request. Raises `NotSent` if the breaker is open, or the tenant holds too many threads."""
        if self._breaker is None:
            return nullcontext()
        delivery = self._delivery or fairness.current()
        try:
            fairness.SHARES.check(delivery)
        except fairness.Overdrawn as error:
            raise NotSent(f"{self.host} gets no requests now: {error}", retry_after=error.retry_after) from None
        return self._breaker.request(f"{self.host} gets no requests", delivery)
