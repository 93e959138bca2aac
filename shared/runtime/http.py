"""HTTP around functions: the targets that functions-framework serves.

The signature is `http`, since a target of signature `cloudevent` always answers a body that a Knative broker takes
for a failed delivery. `GET` answers 200, for readiness probes.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping

import flask

from ..clients import Clients
from ..event import Event, EventError, from_http
from .answer import Answer

log = logging.getLogger("capi-functions")

Handler = Callable[[Clients, Event], Answer]


def target(name: str, handle: Handler, clients: Clients | None = None) -> Callable[[flask.Request], flask.Response]:
    """The functions-framework target `name` for a handler of events."""
    _log_to_stderr()
    clients = clients or Clients()

    def serve(request: flask.Request) -> flask.Response:
        return _serve(name, handle, clients, request)

    serve.__name__ = name
    return serve


def dispatch(handlers: Mapping[str, Callable[[], Handler]]) -> Callable[[flask.Request], flask.Response]:
    """One target for many functions: the first segment of the path names the function.

    Handlers are loaded at their first event, so that starting does not wait for all of them.
    """
    _log_to_stderr()
    clients = Clients()
    loaded: dict[str, Handler] = {}

    def serve(request: flask.Request) -> flask.Response:
        name = request.path.strip("/").partition("/")[0]
        if request.method == "GET" and name in ("", "healthz", "readyz"):
            return flask.Response("ok\n", mimetype="text/plain")
        if name not in handlers:
            known = ", ".join(sorted(handlers))
            return flask.Response(f"no function at /{name}; there are: {known}\n", 404, mimetype="text/plain")
        if name not in loaded:
            loaded[name] = handlers[name]()
        return _serve(name, loaded[name], clients, request)

    return serve


def _serve(name: str, handle: Handler, clients: Clients, request: flask.Request) -> flask.Response:
    if request.method == "GET":
        return flask.Response("ok\n", mimetype="text/plain")
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
        log.exception("%s failed on %s", name, f"{event.type} {event.kind} {event.key}" if event else "an event")
        answer = Answer(500, f"{type(error).__name__} in {name}; the log has the details")
    _log(name, event, answer, time.perf_counter() - started)
    return _response(answer)


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


def _log(name: str, event: Event | None, answer: Answer, seconds: float) -> None:
    about = f"{event.kind or event.type} {event.key} {event.change or ''}".strip() if event else "-"
    level = logging.INFO if answer.status < 400 else logging.WARNING
    later = f" again in {answer.retry_after:g}s" if answer.retry_after is not None else ""
    log.log(level, "%s %s -> %d%s %.1fms %s", name, about, answer.status, later, seconds * 1000, answer.message)


def _log_to_stderr() -> None:
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
        log.propagate = False
