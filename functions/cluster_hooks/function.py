"""`cluster_hooks` over HTTP: at most two reads and one write a call, and nothing kept between calls."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import flask

from shared import metrics
from shared.api.hooks import Limits
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.effects import MANAGER
from shared.event import Event
from shared.kube import ApiError, Key, NotFound, Object, dig, key_of
from shared.runtime import Answer, KubernetesEvent, logs, record_event
from shared.runtime.http import page, read_body, whole

from . import protocol
from .decide import RETRY, Reply, decide

log = logging.getLogger("capi-functions")

NAME = "cluster_hooks"
_LARGEST = 4 * 1024 * 1024
"""Bytes of a request; Clusters come close to etcd's limit of 1.5 MiB at most."""


@dataclass(frozen=True)
class Call:
    """One call and what came of it; `hook` is empty for a path that is none."""

    hook: str
    code: int
    response: Object
    outcome: str
    cluster: Key = Key("", "")  # noqa: RUF009 - immutable

    @property
    def message(self) -> str:
        return str(self.response.get("message", ""))


def target(clients: Clients | None = None) -> Callable[[flask.Request], flask.Response]:
    """The functions-framework target."""
    logs.set_up()
    clients = clients or Clients()

    def cluster_hooks(request: flask.Request) -> flask.Response:
        if request.method == "GET":
            return page(request)
        if request.method != "POST":
            return flask.Response("POST the request of a hook\n", 405, mimetype="text/plain")
        started = time.perf_counter()
        body = read_body(request, _LARGEST)
        called = call(clients, request.path, body)
        _tell(called, time.perf_counter() - started)
        content = json.dumps(called.response)
        return flask.Response(whole(content, body, _LARGEST), called.code, mimetype="application/json")

    return cluster_hooks


def call(clients: Clients, path: str, body: bytes) -> Call:
    """One call of Cluster API. Never raises: it is told of failures in the protocol's own way."""
    hook = ""
    try:
        hook = protocol.hook_at(path)
        if hook == protocol.DISCOVERY:
            return Call(hook, 200, protocol.discovery(), "go")
        if len(body) > _LARGEST:
            raise protocol.BadRequest(f"the request is larger than {_LARGEST} bytes")
        cluster = protocol.cluster_of(hook, body)
        reply = _carried_out(clients, hook, cluster)
        response = protocol.success(hook, reply.message, RETRY if reply.outcome == "block" else 0)
        return Call(hook, 200, response, reply.outcome, key_of(cluster))
    except protocol.UnknownHook as error:
        return _failed(hook, 404, "refused", str(error))
    except protocol.BadRequest as error:
        return _failed(hook, 400, "refused", str(error))
    except ApiError as error:
        return _failed(hook, 503, "failed", str(error))
    except Exception as error:
        log.exception("%s failed", hook)
        return _failed(hook, 500, "failed", f"{type(error).__name__} in {NAME}; the log has the details")


def _carried_out(clients: Clients, hook: str, cluster: Object) -> Reply:
    key = addon_of(cluster)
    addon = clients.management.find(CLUSTER_ADDON, key)
    live = _live(clients, cluster) if addon is not None else None
    reply = decide(hook, live, addon, datetime.now(UTC), Limits.from_env())
    if addon is None:
        return reply
    if reply.patch:
        # Of two calls at once both may write: the same, so neither is refused for it. Only the object must be this one.
        metadata = {**reply.patch.get("metadata", {}), "uid": addon["metadata"]["uid"]}
        try:
            clients.management.patch(CLUSTER_ADDON, key, {**reply.patch, "metadata": metadata}, manager=MANAGER)
        except NotFound:
            return Reply("go", "the Cluster has no addons any more")
    if reply.warned:
        name = f"{key.name[:200]}.{reply.warned}"
        record_event(clients, addon, KubernetesEvent(f"{hook}Overdue", reply.message, "Warning"), name=name)
    return reply


def _live(clients: Clients, cluster: Object) -> Object | None:
    """The Cluster that the call is about, as the API server has it; None where that is another one by now."""
    live = clients.management.find(CLUSTER, key_of(cluster))
    asked = dig(cluster, "metadata.uid")
    return None if live is None or (asked and asked != live["metadata"]["uid"]) else live


def _failed(hook: str, code: int, outcome: str, message: str) -> Call:
    return Call(hook, code, protocol.failure(hook, message), outcome)


def _tell(called: Call, seconds: float) -> None:
    hook = called.hook or "unknown"
    metrics.HOOKS.labels(hook, called.outcome).inc()
    metrics.SECONDS.labels(NAME).observe(seconds)
    about = Event(type=hook, source="", id="", kind=hook, namespace=called.cluster.namespace, name=called.cluster.name)
    again = RETRY if called.outcome == "block" else None
    answer = Answer(called.code, called.message, retry_after=again, context={"outcome": called.outcome})
    logs.delivery(NAME, about, answer, seconds)
