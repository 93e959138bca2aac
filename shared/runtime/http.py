"""HTTP around functions: the targets that functions-framework serves.

The signature is `http`, since a target of signature `cloudevent` always answers a body that a Knative broker takes
for a failed delivery. `GET` answers 200, for readiness probes, and at `/metrics` what is counted.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping

import flask

from .. import metrics
from ..clients import Clients
from ..event import Event, EventError, from_http
from . import logs
from .answer import Answer

log = logging.getLogger("capi-functions")

Handler = Callable[[Clients, Event], Answer]


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
        event = from_http(dict(request.headers), request.get_data())
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
    if request.path.rpartition("/")[2] == "metrics":
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
