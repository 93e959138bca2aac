"""The function `chart_assets`: fetches a chart, checks it, stores it, and answers the waiting HelmReleaseProxy.

The HelmReleaseProxy, not the event, says which chart to fetch, because any pod can send events.
"""

from __future__ import annotations

from datetime import UTC, datetime

from shared import metrics
from shared.api.resources import HELM_RELEASE_PROXY
from shared.charts.errors import ChartError
from shared.clients import Clients
from shared.download import SourceError
from shared.event import Event
from shared.helm_charts.fetch import fetch_chart
from shared.helm_charts.request import ChartRequest, answer_chart
from shared.helm_charts.store import ChartStore, StoredChart
from shared.kube import Object
from shared.runtime import Answer, Task, done
from shared.runtime.keyed_lock import KeyedLock
from shared.storage import ObjectStore

from .triggers import TRIGGERS

_LOCK = KeyedLock("the fetch of charts", limit=4, each=2)
"""Serializes equal requests in a process, so that the second finds the chart stored. The limit keeps threads free while
a repository is slow."""

PAUSE = 5.0
"""Seconds after a failed fetch in which the chart is not fetched again, because each try can occupy a thread until its
timeout."""


def run(clients: Clients, event: Event) -> Answer:
    """Handles the request of a HelmReleaseProxy."""
    arrived = datetime.now(UTC)
    proxy = clients.management.find(HELM_RELEASE_PROXY, event.key)
    if proxy is None:
        return done("the HelmReleaseProxy does not exist")
    request = ChartRequest.from_spec(proxy.get("spec") or {}, event.namespace)
    with _LOCK.hold((request.scope, request.id), event.namespace):
        return _ensure(clients, request, proxy, arrived)


def _ensure(clients: Clients, request: ChartRequest, proxy: Object, arrived: datetime) -> Answer:
    store = ChartStore(ObjectStore.from_env())
    stored, now = store.load(request), datetime.now(UTC)
    if isinstance(stored, StoredChart) and not stored.is_due(now):
        return _answer("present", f"{request} is stored already", proxy)
    failed = store.last_failure(request)
    if failed and failed.until and failed.until > now:
        seconds = (failed.until - now).total_seconds()
        # A request that arrived before the failure gets an answer. The status of later senders has the reason already.
        return _answer("held", failed.message, proxy if failed.at >= arrived else None, seconds)
    try:
        fetched = fetch_chart(clients, request)
    except (SourceError, ChartError) as error:
        transient = isinstance(error, SourceError) and error.transient
        after = (error.retry_after if isinstance(error, SourceError) else None) or PAUSE
        store.record_failure(request, str(error), after)
        # A stored chart is usable, so its repository is checked again at the next request only.
        again = after if transient and not isinstance(stored, StoredChart) else None
        return _answer("failed" if isinstance(error, SourceError) else "invalid", str(error), proxy, again)
    store.save(request, fetched.name, fetched.version, fetched.archive)
    return _answer("fetched", f"{request} fetched: version {fetched.version}", proxy)


def _answer(outcome: str, message: str, proxy: Object | None, retry_after: float | None = None) -> Answer:
    metrics.CHART_FETCHES.labels(outcome=outcome).inc()
    return done(message, reply=answer_chart(proxy) if proxy else None, retry_after=retry_after)


handle = Task(TRIGGERS, run).handle
