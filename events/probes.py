"""Serves the probes and metrics of a forwarder: `/healthz`, `/readyz` and `/metrics`, on a port of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from shared import metrics

from . import health
from .bounded_server import BoundedServer, ServerThread, TimedHandler
from .forwarder import Forwarder
from .health import Activity, Check, Problem
from .lease import LeaseHolder
from .shard import Shard


def publish(forwarder: Forwarder, shard: Shard, holder: LeaseHolder | None) -> None:
    """Makes the gauges of `shared.metrics` read the state of this process's forwarder."""
    part = f"{shard.index}/{shard.count}"

    def count(check: Check) -> Callable[[], float]:
        def found() -> float:
            problems = health.unready(forwarder.activity(), time.monotonic())
            return sum(problem.check == check for problem in problems)

        return found

    for state in ("ready", "in_flight", "waiting", "failing"):
        metrics.QUEUE_ITEMS.labels(state).set_function(partial(_count_items, forwarder, state))
    for check in health.CHECKS:
        metrics.PROBLEMS.labels(check).set_function(count(check))
    metrics.QUEUE_BYTES.labels(part).set_function(lambda: forwarder.dispatcher.bytes)
    metrics.QUEUE_OLDEST.labels(part).set_function(forwarder.dispatcher.oldest)
    if holder is not None:
        metrics.LEASE_HELD.labels(part).set_function(lambda: holder.held)


def _count_items(forwarder: Forwarder, state: str) -> float:
    return float(getattr(forwarder.dispatcher.pending(), state))


class Probes(ServerThread):
    """An HTTP server that answers probes by the judgement of `events.health`.

    Args:
        activity: Returns the present activity of the forwarder.
        host: Address to listen at.
        port: Port to listen at; 0 for a free one.
    """

    def __init__(self, activity: Callable[[], Activity], *, host: str = "", port: int = 0) -> None:
        super().__init__(_Server((host, port), activity), "probes")


class _Server(BoundedServer):
    connections = 16

    def __init__(self, address: tuple[str, int], activity: Callable[[], Activity]) -> None:
        self.activity = activity
        super().__init__(address, _Handler)


class _Handler(TimedHandler):
    server: _Server
    timeout = 30.0

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self.answer_with(200, metrics.exposition(), metrics.CONTENT_TYPE)
        elif path == "/healthz":
            self._judge(health.dead)
        elif path == "/readyz":
            self._judge(health.unready)
        else:
            self.answer(404, "there are /healthz, /readyz and /metrics")

    def _judge(self, judgement: Callable[[Activity, float], Sequence[Problem]]) -> None:
        found = judgement(self.server.activity(), time.monotonic())
        self.answer(503 if found else 200, "\n".join(problem.message for problem in found) or "ok")
