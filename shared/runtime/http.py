"""The HTTP targets of functions, which functions-framework serves.

The targets have the signature `http`. A target with the signature `cloudevent` answers every event with a body, which a
Knative broker takes for a failed delivery.

POST delivers an event. GET returns the metrics at `/metrics`, unless METRICS_PORT names their own port, and the version
of this project at `/version`. At `/healthz`, for liveness probes, it returns 503 if a delivery is stuck; at `/readyz`
it returns 500 and the missing requirements of the functions. At all other paths it returns 200, for readiness probes.
`callers` decides whose requests are refused.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version

import flask

from .. import fairness, http_request, metrics, tracing
from ..clients import Clients
from ..event import Event, EventError, from_http
from ..memory_budget import MemoryBusy
from ..triggers import Triggers
from . import callers, logs
from .answer import Answer
from .readiness import Readiness
from .spans import describe_delivery

log = logging.getLogger("capi-functions")

Handler = Callable[[Clients, Event], Answer]

MAX_BYTES = http_request.MAX_BODY
"""The limit of a request body, in bytes."""
_TOO_LARGE = f"the body is larger than {MAX_BYTES >> 20} MiB\n"

_STUCK_AFTER = 1200.0
"""The seconds after which a delivery counts as stuck. All requests of a delivery have deadlines that end earlier."""

_in_flight_since: dict[int, float] = {}
"""The start of each delivery that is in progress, by thread, in seconds of the monotonic clock."""


def target(
    name: str,
    handle: Handler,
    clients: Clients | None = None,
    declared: Callable[[], Iterable[Triggers]] = lambda: (),
) -> Callable[[flask.Request], flask.Response]:
    """Returns the functions-framework target of one function.

    Args:
        name: The name of the target.
        handle: Reconciles the object of an event.
        clients: By default the clients are configured by the environment of the process.
        declared: Returns the function's declaration, for `/readyz`.
    """
    logs.set_up()
    tracing.set_up()
    clients = clients or Clients()
    readiness = Readiness(clients, declared)

    def serve(request: flask.Request) -> flask.Response:
        return refused(request) or _serve(name, handle, clients, request, readiness)

    serve.__name__ = name
    return serve


def dispatch(
    handlers: Mapping[str, Handler], declared: Callable[[], Iterable[Triggers]] = lambda: ()
) -> Callable[[flask.Request], flask.Response]:
    """Returns a functions-framework target for several functions; the first segment of the path names the function.

    `declared` returns the declarations of the running functions, for `/readyz`.
    """
    logs.set_up()
    tracing.set_up()
    clients = Clients()
    readiness = Readiness(clients, declared)

    def serve(request: flask.Request) -> flask.Response:
        if response := refused(request):
            return response
        name = request.path.strip("/").partition("/")[0]
        if request.method == "GET" and name in ("", "healthz", "readyz", "metrics", "version"):
            return respond_to_get(request, readiness)
        if name not in handlers:
            known = ", ".join(sorted(handlers))
            return flask.Response(
                f"there is no function {name}; the functions are: {known}\n", 404, mimetype="text/plain"
            )
        return _serve(name, handlers[name], clients, request, readiness)

    return serve


def refused(request: flask.Request) -> flask.Response | None:
    """Returns the response to a request of an unauthorized sender, None for other requests."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    server = request.server[0] if request.server else ""
    answer = callers.refusal(request.method, headers, server, callers.token_file())
    return _response(answer) if answer else None


def _serve(
    name: str, handle: Handler, clients: Clients, request: flask.Request, readiness: Readiness
) -> flask.Response:
    if request.method == "GET":
        return respond_to_get(request, readiness)
    if request.method != "POST":
        return flask.Response("only GET and POST are supported: POST a CloudEvent\n", 405, mimetype="text/plain")
    received = {header.lower(): value for header, value in request.headers.items()}
    led_to_it = tracing.parent(received, received.get(f"ce-{tracing.HEADER}", ""))
    with tracing.span(name, "consumer", parent=led_to_it) as span:
        return _deliver(name, handle, clients, request, span)


def _deliver(
    name: str, handle: Handler, clients: Clients, request: flask.Request, span: tracing.Span
) -> flask.Response:
    started = time.perf_counter()
    event: Event | None = None
    try:
        with _track_delivery():
            body = read_body(request)
            if len(body) > MAX_BYTES:
                return flask.Response(response_content(_TOO_LARGE, body), 413, mimetype="text/plain")
            event = from_http(dict(request.headers), body)
            with fairness.SHARES.delivery(event.key.namespace):
                answer = handle(clients, event)
    except EventError as error:
        answer = Answer(400, str(error))
    except fairness.Overdrawn as error:
        answer = Answer(503, str(error), retry_after=error.retry_after)
    except MemoryBusy as error:
        answer = Answer(503, str(error), retry_after=2.0)
    except Exception as error:
        subject = f"{event.type} {event.kind} {event.key}" if event else "an event"
        log.exception("%s failed on %s", name, logs.one_line(subject))
        answer = Answer(500, f"{type(error).__name__} in {name}; the log has the details")
    seconds = time.perf_counter() - started
    metrics.DELIVERIES.labels(name, answer.outcome).inc()
    metrics.SECONDS.labels(name).observe(seconds)
    logs.delivery(name, event, answer, seconds)
    describe_delivery(span, name, event, answer)
    return _response(answer)


def respond_to_get(request: flask.Request, readiness: Readiness | None = None) -> flask.Response:
    """Returns the metrics, the version, the missing requirements, or the health of the process."""
    name = request.path.rpartition("/")[2]
    if name == "healthz" and (seconds := _longest_delivery()) > _STUCK_AFTER:
        return flask.Response(f"a delivery has been in progress for {seconds:.0f} s\n", 503, mimetype="text/plain")
    if name == "metrics" and (port := os.environ.get("METRICS_PORT")):
        return flask.Response(f"the metrics are at port {port}\n", 404, mimetype="text/plain")
    if name == "metrics":
        return flask.Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)
    if name == "readyz" and readiness is not None and (missing := readiness.missing()):
        return flask.Response("".join(f"{line}\n" for line in missing), 500, mimetype="text/plain")
    if name == "version":
        return flask.jsonify(version=version("capi-functions"))
    return flask.Response("ok\n", mimetype="text/plain")


def _response(answer: Answer) -> flask.Response:
    headers: dict[str, str] = {}
    body: bytes = b""
    if answer.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(answer.retry_after)))
        headers["Retry-After-Ms"] = str(int(answer.retry_after * 1000))
    if answer.reply is not None:
        reply_headers, body = replace(answer.reply, trace=tracing.current()).to_http()
        headers |= reply_headers
    elif answer.status >= 400:
        # Only errors have a text: a broker takes a 2xx with a body that is no CloudEvent for a failed delivery.
        headers["content-type"] = "text/plain; charset=utf-8"
        headers |= {"WWW-Authenticate": "Bearer"} if answer.status == 401 else {}
        body = (answer.message + "\n").encode()
    response = flask.Response(body, answer.status, headers)
    if not body:
        response.headers.pop("Content-Type", None)
    return response


def read_body(request: flask.Request, limit: int = MAX_BYTES) -> bytes:
    """Returns the body of a request, cut after `limit` + 1 bytes. The rest of a longer body is not received."""
    body: bytes = request.stream.read(limit + 1)
    connection = request.environ.get("gunicorn.socket")
    if len(body) > limit and isinstance(connection, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RD)  # a TLS socket's `shutdown` would end the encryption
    return body


def response_content(content: str, body: bytes, limit: int = MAX_BYTES) -> str | Iterator[str]:
    """Returns the content of a response: as a stream if `body`, the request's, is longer than `limit`.

    Before any other response functions-framework reads the whole rest of the request.
    """
    return iter([content]) if len(body) > limit else content


@contextmanager
def _track_delivery() -> Iterator[None]:
    thread = threading.get_ident()
    _in_flight_since[thread] = time.monotonic()
    try:
        yield
    finally:
        del _in_flight_since[thread]


def _longest_delivery() -> float:
    """Returns the seconds since the start of the oldest delivery in progress; negative infinity if there is none."""
    return time.monotonic() - min(_in_flight_since.copy().values(), default=math.inf)
