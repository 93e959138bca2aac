"""The HTTP targets of functions, which functions-framework serves.

Their signature is `http`: a target of signature `cloudevent` always answers with a body, which a Knative broker counts
as a failed delivery. GET answers 200, for readiness probes. At `/metrics` it answers with the metrics; at
`/healthz`, for liveness probes, with 503 if a delivery does not end.
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

MAX_BYTES = 8 << 20
"""Bytes of a request: an object in Kubernetes has at most 3 MiB."""
_TOO_LARGE = f"the body is larger than {MAX_BYTES >> 20} MiB\n"

_STUCK_AFTER = 1200.0
"""Seconds after which a delivery counts as stuck: all that it does has earlier deadlines."""

_running: dict[int, float] = {}
"""The time at which each delivery in progress began, by thread."""


def target(name: str, handle: Handler, clients: Clients | None = None) -> Callable[[flask.Request], flask.Response]:
    """Returns the functions-framework target of one function.

    Args:
        name: The name of the target.
        handle: Answers events.
        clients: By default those of the environment of the process.
    """
    logs.set_up()
    clients = clients or Clients()

    def serve(request: flask.Request) -> flask.Response:
        return _serve(name, handle, clients, request)

    serve.__name__ = name
    return serve


def dispatch(handlers: Mapping[str, Handler]) -> Callable[[flask.Request], flask.Response]:
    """Returns one functions-framework target for functions by name: the first segment of the path is the name."""
    logs.set_up()
    clients = Clients()

    def serve(request: flask.Request) -> flask.Response:
        name = request.path.strip("/").partition("/")[0]
        if request.method == "GET" and name in ("", "healthz", "readyz", "metrics"):
            return page(request)
        if name not in handlers:
            known = ", ".join(sorted(handlers))
            return flask.Response(
                f"there is no function {name}; the functions are: {known}\n", 404, mimetype="text/plain"
            )
        return _serve(name, handlers[name], clients, request)

    return serve


def _serve(name: str, handle: Handler, clients: Clients, request: flask.Request) -> flask.Response:
    if request.method == "GET":
        return page(request)
    if request.method != "POST":
        return flask.Response("only GET and POST are supported: POST a CloudEvent\n", 405, mimetype="text/plain")
    started = time.perf_counter()
    event: Event | None = None
    try:
        with _in_progress():
            body = read_body(request)
            if len(body) > MAX_BYTES:
                return flask.Response(response_content(_TOO_LARGE, body), 413, mimetype="text/plain")
            event = from_http(dict(request.headers), body)
            answer = handle(clients, event)
    except EventError as error:
        answer = Answer(400, str(error))
    except Exception as error:
        subject = f"{event.type} {event.kind} {event.key}" if event else "an event"
        log.exception("%s failed on %s", name, logs.one_line(subject))
        answer = Answer(500, f"{type(error).__name__} in {name}; the log has the details")
    seconds = time.perf_counter() - started
    metrics.DELIVERIES.labels(name, answer.outcome).inc()
    metrics.SECONDS.labels(name).observe(seconds)
    logs.delivery(name, event, answer, seconds)
    return _response(answer)


def page(request: flask.Request) -> flask.Response:
    """Returns the response to a GET: the metrics, or the health of the process."""
    name = request.path.rpartition("/")[2]
    if name == "healthz" and (seconds := _longest()) > _STUCK_AFTER:
        return flask.Response(f"a delivery has been in progress for {seconds:.0f} s\n", 503, mimetype="text/plain")
    if name == "metrics":
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
        # No body with 2xx: a broker counts any body but a CloudEvent as a failed delivery.
        headers["content-type"] = "text/plain; charset=utf-8"
        body = (answer.message + "\n").encode()
    response = flask.Response(body, answer.status, headers)
    if not body:
        response.headers.pop("Content-Type", None)
    return response


def read_body(request: flask.Request, limit: int = MAX_BYTES) -> bytes:
    """Returns the body of a request, at most `limit` + 1 bytes; closes the connection for reading if there is more."""
    body: bytes = request.stream.read(limit + 1)
    connection = request.environ.get("gunicorn.socket")
    if len(body) > limit and isinstance(connection, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RD)  # a TLS socket's `shutdown` would end the encryption
    return body


def response_content(content: str, body: bytes, limit: int = MAX_BYTES) -> str | Iterator[str]:
    """Returns the content of a response, as a stream if the request has a body that is longer than `limit`.

    functions-framework reads the rest of a request, however long, before each response that is not a stream.
    """
    return iter([content]) if len(body) > limit else content


@contextmanager
def _in_progress() -> Iterator[None]:
    thread = threading.get_ident()
    _running[thread] = time.monotonic()
    try:
        yield
    finally:
        del _running[thread]


def _longest() -> float:
    """Returns the seconds since the oldest delivery in progress began."""
    return time.monotonic() - min(_running.copy().values(), default=math.inf)
