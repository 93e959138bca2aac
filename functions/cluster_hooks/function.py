"""Serves `cluster_hooks` over HTTP. A call takes at most three reads, and has no state."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import flask

from shared import metrics, tracing, watch_filter
from shared.api.hooks import BEFORE_CLUSTER_DELETE, HookDeadlines
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.event import Event
from shared.helm_proxies import cluster_deletion
from shared.kube import MANAGER, NotFound, Object, dig, key_of
from shared.memory_budget import MemoryBusy
from shared.runtime import Answer, KubernetesEvent, Task, done, logs, record_event
from shared.runtime.http import read_body, refused, respond_to_get, response_content

from . import protocol
from .access import ACCESS
from .decide import RETRY, HookDecision, decide

log = logging.getLogger("capi-functions")

NAME = "cluster_hooks"
_MAX_BODY = 4 * 1024 * 1024
"""The maximum size of a request in bytes. It contains a Cluster, which etcd limits to 1.5 MiB."""


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
        content = response_content(json.dumps(called.response), body, _MAX_BODY)
        return flask.Response(content, called.code, mimetype="application/json")

    return cluster_hooks


@dataclass(frozen=True)
class HookCall:
    """One call of a hook, as an event whose type is the hook, with its answer.

    The type is empty if the path belongs to no hook.
    """

    event: Event
    answer: Answer

    @property
    def outcome(self) -> str:
        """The outcome for logs and metrics: from the `HookDecision`, or `refused` (invalid request), or `failed`."""
        return self.answer.context.get("outcome", "failed" if self.answer.status >= 500 else "refused")

    @property
    def code(self) -> int:
        """The status code of the HTTP response."""
        return 200 if self.answer.status < 300 else self.answer.status

    @property
    def response(self) -> Object:
        """The content of the HTTP response."""
        hook, message = self.event.type, self.answer.message
        if self.code != 200:
            return protocol.failure(hook, message)
        return protocol.success(hook, message, int(self.answer.retry_after or 0))


def call(clients: Clients, path: str, body: bytes) -> HookCall:
    """Handles one call of Cluster API's runtime client. Never raises: a failure becomes a failure response."""
    event = Event(type="", source="", id="")
    try:
        event = replace(event, type=protocol.hook_at(path))
        if event.type != protocol.DISCOVERY:
            if len(body) > _MAX_BODY:
                raise protocol.BadRequest(f"the request is larger than {_MAX_BODY} bytes")
            cluster = protocol.cluster_of(event.type, body)
            event = replace(event, data=cluster, **key_of(cluster)._asdict())
        return HookCall(event, handle(clients, event))
    except protocol.UnknownHook as error:
        return HookCall(event, Answer(404, str(error)))
    except protocol.BadRequest as error:
        return HookCall(event, Answer(400, str(error)))
    except MemoryBusy as error:
        return HookCall(event, Answer(503, str(error)))
    except Exception as error:
        log.exception("%s failed", event.type)
        return HookCall(event, Answer(500, f"{type(error).__name__} in {NAME}; the log has the details"))


def run(clients: Clients, event: Event) -> Answer:
    """Answers a call of a hook: decides on the ClusterAddon of the Cluster, and patches it; starts uninstallations."""
    if event.type == protocol.DISCOVERY:
        return done(context={"outcome": "continue"})
    decision = _reconcile(clients, event.type, event.data)
    retry_after = RETRY if decision.outcome == "block" else None
    return done(decision.message, retry_after=retry_after, context={"outcome": decision.outcome})


def _reconcile(clients: Clients, hook: str, cluster: Object) -> HookDecision:
    key = addon_of(cluster)
    addon = clients.management.find(CLUSTER_ADDON, key)
    releases = cluster_deletion.read(clients, cluster) if hook == BEFORE_CLUSTER_DELETE else ()
    live = _live_cluster(clients, cluster) if addon is not None or releases else None
    if live is not None and not watch_filter.admits(live):
        return HookDecision("continue", "the watch filter of this installation excludes the Cluster")
    decision = decide(hook, live, addon, datetime.now(UTC), HookDeadlines.from_env(), releases)
    for deletion in decision.deletions:
        deletion.execute(clients)
    if decision.warning and live is not None:
        warning = KubernetesEvent(cluster_deletion.NOT_UNINSTALLED, decision.warning, "Warning", once=True)
        record_event(clients, live, warning)
    if addon is None:
        return decision
    if decision.patch:
        # Concurrent calls write the same values, so only the uid is a precondition.
        metadata = {**decision.patch.get("metadata", {}), "uid": addon["metadata"]["uid"]}
        try:
            clients.management.patch(CLUSTER_ADDON, key, {**decision.patch, "metadata": metadata}, manager=MANAGER)
        except NotFound:
            return HookDecision("continue", "the Cluster no longer has addons")
    if decision.event_suffix:
        name = f"{key.name[:200]}.{decision.event_suffix}"
        record_event(clients, addon, KubernetesEvent(f"{hook}Overdue", decision.message, "Warning"), name=name)
    return decision


def _live_cluster(clients: Clients, cluster: Object) -> Object | None:
    """Reads the Cluster of a call from the API server; returns None if it does not exist or has another uid."""
    live = clients.management.find(CLUSTER, key_of(cluster))
    uid = dig(cluster, "metadata.uid")
    return None if live is None or (uid and uid != live["metadata"]["uid"]) else live


def _describe(span: tracing.Span, called: HookCall) -> None:
    key = str(called.event.key) if called.event.name else ""
    span.set({"capi_functions.function": NAME, "capi_functions.outcome": called.outcome, "capi_functions.key": key})
    span.set({"capi_functions.hook": called.event.type, "http.response.status_code": called.code})


def _log(called: HookCall, seconds: float) -> None:
    metrics.HOOKS.labels(called.event.type or "unknown", called.outcome).inc()
    metrics.SECONDS.labels(NAME).observe(seconds)
    logs.delivery(NAME, called.event, called.answer, seconds)


handle = Task(ACCESS, run).handle
