"""HTTP around functions: the targets that functions-framework serves.

The signature is `http`, since a target of signature `cloudevent` always answers a body that a Knative broker takes
for a failed delivery. `GET` answers 200, for readiness probes, at `/metrics` what is counted, and at `/healthz`
whether the process gets on, for liveness probes.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import flask

from .. import metrics
from ..clients import Clients
from ..event import Event, EventError, from_http
from . import logs
from .answer import Answer

log = logging.getLogger("capi-functions")

Handler = Callable[[Clients, Event], Answer]

MOST_BYTES = 8 << 20
"""Of a request: Kubernetes' objects have 3 MiB at most."""
_TOO_LARGE = f"the body is larger than {MOST_BYTES >> 20} MiB\n"

_WEDGED = 1200.0
"""Seconds after which a delivery does not end any more: rounds, their requests and what they render have deadlines."""

_running: dict[int, float] = {}
"""When the deliveries that are under way began, by thread."""


def target(name: str, handle: Handler, clients: Clients | None = None) -> Callable[[flask.Request], flask.Response]:
    """The functions-framework target `name` for a handler of events."""
    logs.set_up()
    clients = clients or Clients()

    def serve(request: flask.Request) -> flask.Response:
        return _serve(name, handle, clients, request)

    serve.__name__ = name
    return serve


def dispatch(handlers: Mapping[str, Callable[[], Handler]]) -> Callable[[flask.Request], flask.Response]:
    """One target for many functions: the first segment of the path names the function.

    Handlers are loaded at their first event, so that starting does not wait for all of them.
    """
    logs.set_up()
    clients = Clients()
    loaded: dict[str, Handler] = {}

    def serve(request: flask.Request) -> flask.Response:
        name = request.path.strip("/").partition("/")[0]
        if request.method == "GET" and name in ("", "healthz", "readyz", "metrics"):
            return page(request)
        if name not in handlers:
            known = ", ".join(sorted(handlers))
            return flask.Response(f"no function at /{name}; there are: {known}\n", 404, mimetype="text/plain")
        if name not in loaded:
            loaded[name] = handlers[name]()
        return _serve(name, loaded[name], clients, request)

    return serve


def _serve(name: str, handle: Handler, clients: Clients, request: flask.Request) -> flask.Response:
    if request.method == "GET":
        return page(request)
    if request.method != "POST":
        return flask.Response("POST a CloudEvent\n", 405, mimetype="text/plain")
    started = time.perf_counter()
    event: Event | None = None
    try:
        with _under_way():
            body = read_body(request)
            if len(body) > MOST_BYTES:
                return flask.Response(whole(_TOO_LARGE, body), 413, mimetype="text/plain")
            event = from_http(dict(request.headers), body)
            answer = handle(clients, event)
    except EventError as error:
        answer = Answer(400, str(error))
    except Exception as error:
        about = f"{event.type} {event.kind} {event.key}" if event else "an event"
        log.exception("%s failed on %s", name, logs.one_line(about))
        answer = Answer(500, f"{type(error).__name__} in {name}; the log has the details")
    seconds = time.perf_counter() - started
    metrics.DELIVERIES.labels(name, answer.outcome).inc()
    metrics.SECONDS.labels(name).observe(seconds)
    logs.delivery(name, event, answer, seconds)
    return _response(answer)


def page(request: flask.Request) -> flask.Response:
    """The answer to a GET: what is counted, or that the process is there."""
    place = request.path.rpartition("/")[2]
    if place == "healthz" and (seconds := _longest()) > _WEDGED:
        return flask.Response(f"a delivery has been under way for {seconds:.0f} s\n", 503, mimetype="text/plain")
    if place == "metrics":
        return flask.Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)
    return flask.Response("ok\n", mimetype="text/plain")


def _response(answer: Answer) -> flask.Response:
    headers: dict[str, str] = {}
    body: bytes = b""
    if answer.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(answer.retry_after)))
        headers["Retry-After-Ms"] = str(int(answer.retry_after * 1000))
    if answer.reply is not None:
        reply_headers, body = answer.reply.to_http()
        headers |= reply_headers
    elif answer.status >= 400:
        # A 2xx answer must stay empty: brokers take any other body for a broken reply.
        headers["content-type"] = "text/plain; charset=utf-8"
        body = (answer.message + "\n").encode()
    response = flask.Response(body, answer.status, headers)
    if not body:
        response.headers.pop("Content-Type", None)
    return response


def read_body(request: flask.Request, most: int = MOST_BYTES) -> bytes:
    """The body of a request; of one that is longer than `most` one byte more, and its connection takes no others."""
    body: bytes = request.stream.read(most + 1)
    connection = request.environ.get("gunicorn.socket")
    if len(body) > most and isinstance(connection, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RD)  # a TLS socket's own would end the encryption, too
    return body


def whole(content: str, body: bytes, most: int = MOST_BYTES) -> str | Iterator[str]:
    """The content of an answer to a request with this body, as functions-framework must be given it.

    It reads what is left of a request, whatever that is, before each answer that is not a stream.
    """
    return iter([content]) if len(body) > most else content


@contextmanager
def _under_way() -> Iterator[None]:
    thread = threading.get_ident()
    _running[thread] = time.monotonic()
    try:
        yield
    finally:
        del _running[thread]


def _longest() -> float:
    """Seconds since the oldest delivery that is under way began."""
    return time.monotonic() - min(_running.copy().values(), default=math.inf)
