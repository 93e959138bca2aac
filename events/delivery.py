"""Delivers one event to a function, over HTTP or by a call within this process, and returns its `Answer`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shared import tracing
from shared.clients import Clients
from shared.event import Event, EventError, from_http, is_event
from shared.runtime import callers, sink
from shared.runtime.answer import Answer

if TYPE_CHECKING:
    from shared.runtime.http import Handler

log = logging.getLogger("capi-functions.events")

TIMEOUT = 120.0
"""Seconds to wait for the answer of a function."""

Deliver = Callable[[str, Event], Answer]
"""Delivers an event to the function with this name. Never raises, because failures are answers."""


class HttpDelivery:
    """Posts events in binary mode.

    Args:
        url: Events are posted to `<url>/<function>`. If the URL contains `{function}`, the function's name replaces it,
            with `-` for `_` as in host names.
        single: Posts all events to `url` itself, a sink: with the token and the CA of a SinkBinding, if there are any.
        timeout: Seconds to connect, and seconds to wait for the answer.
        token: The file with the token for the receiver in a local run.
    """

    def __init__(
        self,
        url: str,
        *,
        single: bool = False,
        timeout: tuple[float, float] = (2.0, TIMEOUT),
        token: Path | None = None,
    ) -> None:
        import urllib3

        self._url = url
        self._single = single
        self._token = token
        self._pool = urllib3.PoolManager(
            maxsize=32,
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
            retries=False,
            ssl_context=sink.tls() if single else None,
        )

    def __call__(self, function: str, event: Event) -> Answer:
        """Posts the event and returns the answer; 503 if there is no response."""
        import urllib3

        url = self._url if self._single else address(self._url, function)
        headers, body = event.to_http()
        headers |= tracing.headers()
        if self._single:
            headers |= sink.headers(url, event)
        headers |= callers.authorization(self._token)
        try:
            response = self._pool.request("POST", url, body=body, headers=headers, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return Answer(503, f"{url} does not answer: {error}")
        return read_answer(response.status, response.headers, response.data)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()


class InProcessDelivery:
    """Calls the function that `handlers` returns for its name. For tests, replays and runs without a server."""

    def __init__(self, handlers: Callable[[str], Handler], clients: Clients) -> None:
        self._handlers = handlers
        self._clients = clients

    def __call__(self, function: str, event: Event) -> Answer:
        """Calls the function and returns its answer; 500 for an exception."""
        try:
            return self._handlers(function)(self._clients, event)
        except EventError as error:
            return Answer(400, str(error))
        except Exception as error:
            log.exception("%s failed on %s %s", function, event.kind or event.type, event.key)
            return Answer(500, f"{type(error).__name__}: {error}")


def address(url: str, function: str) -> str:
    """Returns the URL of a function; see `HttpDelivery`."""
    if "{function}" in url:
        return url.replace("{function}", function.replace("_", "-"))
    return f"{url.rstrip('/')}/{function}"


def read_answer(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Returns the answer in an HTTP response; 502 for an unreadable reply, which a broker treats as a failure, too."""
    lowered = {name.lower(): value for name, value in headers.items()}
    after = retry_after(lowered)
    if status >= 300:
        return Answer(status, body[:500].decode(errors="replace").strip(), retry_after=after)
    reply = None
    if is_event(lowered):
        try:
            reply = from_http(lowered, body)
        except EventError as error:
            return Answer(502, f"the reply is not a valid CloudEvent: {error}")
    return Answer(status, reply=reply, retry_after=after)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds in `Retry-After-Ms`, else in `Retry-After`; None for an HTTP date. Names are lower case."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / scale)
        except (KeyError, ValueError):
            continue
    return None
