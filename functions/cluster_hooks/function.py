"""Serves `cluster_hooks` over HTTP: at most two reads and one write for each call, no state between calls."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import flask

from shared import metrics, tracing, watch_filter
from shared.api.hooks import HookDeadlines
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.event import Event
from shared.kube import MANAGER, ApiError, Key, NotFound, Object, dig, key_of
from shared.runtime import Answer, KubernetesEvent, logs, record_event
from shared.runtime.http import read_body, refused, respond_to_get, response_content

from . import protocol
from .decide import RETRY, HookDecision, decide

log = logging.getLogger("capi-functions")

NAME = "cluster_hooks"
_MAX_BODY = 4 * 1024 * 1024
"""The maximum size of a request in bytes. It contains a Cluster, which etcd limits to 1.5 MiB."""


@dataclass(frozen=True)
class HookCall:
    """One call of a hook with its response; `hook` is empty if the path belongs to no hook.

    `outcome` is for logs and metrics: from the `HookDecision`, or `refused` (invalid request), or `failed`.
    """

    hook: str
    code: int
    response: Object
    outcome: str
    cluster: Key = Key("", "")  # noqa: RUF009 - immutable

    @property
    def message(self) -> str:
        return str(self.response.get("message", ""))


def target(clients: Clients | None = None) -> Callable[[flask.Request], flask.Response]:
    """Returns the functions-framework target."""
    logs.set_up()
    tracing.set_up()
    clients = clients or Clients()

    def cluster_hooks(request: flask.Request) -> flask.Response:
        if response := refused(request):
            return response
        if request.method == "GET":
            return respond_to_get(request)
        if request.method != "POST":
            return flask.Response("POST the request of a hook\n", 405, mimetype="text/plain")
        started = time.perf_counter()
        body = read_body(request, _MAX_BODY)
        with tracing.span(NAME, "server", parent=request.headers.get(tracing.HEADER, "")) as span:
            called = call(clients, request.path, body)
            _log(called, time.perf_counter() - started)
            _describe(span, called)
        content = json.dumps(called.response)
        return flask.Response(response_content(content, body, _MAX_BODY), called.code, mimetype="application/json")

    return cluster_hooks


def call(clients: Clients, path: str, body: bytes) -> HookCall:
    """Handles one call of Cluster API's runtime client. Never raises: a failure becomes a failure response."""
    hook = ""
    try:
        hook = protocol.hook_at(path)
        if hook == protocol.DISCOVERY:
            return HookCall(hook, 200, protocol.discovery(), "continue")
        if len(body) > _MAX_BODY:
            raise protocol.BadRequest(f"the request is larger than {_MAX_BODY} bytes")
        cluster = protocol.cluster_of(hook, body)
        decision = _reconcile(clients, hook, cluster)
        response = protocol.success(hook, decision.message, RETRY if decision.outcome == "block" else 0)
        return HookCall(hook, 200, response, decision.outcome, key_of(cluster))
    except protocol.UnknownHook as error:
        return _failed(hook, 404, "refused", str(error))
    except protocol.BadRequest as error:
        return _failed(hook, 400, "refused", str(error))
    except ApiError as error:
        return _failed(hook, 503, "failed", str(error))
    except Exception as error:
        log.exception("%s failed", hook)
        return _failed(hook, 500, "failed", f"{type(error).__name__} in {NAME}; the log has the details")


def _reconcile(clients: Clients, hook: str, cluster: Object) -> HookDecision:
    key = addon_of(cluster)
    addon = clients.management.find(CLUSTER_ADDON, key)
    live = _live_cluster(clients, cluster) if addon is not None else None
    if live is not None and not watch_filter.admits(live):
        return HookDecision("continue", "the watch filter of this installation excludes the Cluster")
    decision = decide(hook, live, addon, datetime.now(UTC), HookDeadlines.from_env())
    if addon is None:
        return decision
    if decision.patch:
        # Concurrent calls write the same values, so only the uid is a precondition.
        metadata = {**decision.patch.get("metadata", {}), "uid": addon["metadata"]["uid"]}
        try:
            clients.management.patch(CLUSTER_ADDON, key, {**decision.patch, "metadata": metadata}, manager=MANAGER)
        except NotFound:
            return HookDecision("continue", "the Cluster has no addons any more")
    if decision.event_suffix:
        name = f"{key.name[:200]}.{decision.event_suffix}"
        record_event(clients, addon, KubernetesEvent(f"{hook}Overdue", decision.message, "Warning"), name=name)
    return decision


def _live_cluster(clients: Clients, cluster: Object) -> Object | None:
    """Reads the Cluster of a call from the API server; returns None if it does not exist or has another uid."""
    live = clients.management.find(CLUSTER, key_of(cluster))
    uid = dig(cluster, "metadata.uid")
    return None if live is None or (uid and uid != live["metadata"]["uid"]) else live


def _failed(hook: str, code: int, outcome: str, message: str) -> HookCall:
    return HookCall(hook, code, protocol.failure(hook, message), outcome)


def _describe(span: tracing.Span, called: HookCall) -> None:
    key = str(called.cluster) if called.cluster.name else ""
    span.set({"capi_functions.function": NAME, "capi_functions.outcome": called.outcome, "capi_functions.key": key})
    span.set({"capi_functions.hook": called.hook, "http.response.status_code": called.code})


def _log(called: HookCall, seconds: float) -> None:
    hook = called.hook or "unknown"
    metrics.HOOKS.labels(hook, called.outcome).inc()
    metrics.SECONDS.labels(NAME).observe(seconds)
    about = Event(type=hook, source="", id="", kind=hook, namespace=called.cluster.namespace, name=called.cluster.name)
    retry_after = RETRY if called.outcome == "block" else None
    answer = Answer(called.code, called.message, retry_after=retry_after, context={"outcome": called.outcome})
    logs.delivery(NAME, about, answer, seconds)
