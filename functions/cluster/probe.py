"""Probes whether the API server of a workload cluster answers, and remembers the failures in the condition's message.

A success is kept until something fails, so a Cluster in which nothing changes is probed at resyncs only. After a
failure the next attempts follow at growing distances, so that a dead cluster costs next to nothing. Each attempt reads
the kubeconfig Secret, so rotated credentials are used at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from shared.api import cluster as cluster_api
from shared.api.cluster import KUBECONFIG_AVAILABLE
from shared.api.conditions import get_condition, is_true, rfc3339
from shared.applier.connection import ConnectionFailed, open_workload
from shared.clients import Clients
from shared.kube import ApiError, Client, NotServed, Object, Unauthorized, deleting, dig, key_of
from shared.kube.circuit_breaker import NotSent

from .status import ClusterStatusBuilder

PROBED: Final = "RemoteConnectionProbe"
GRACE = timedelta(seconds=50)
"""The time for which the condition stays True while probes fail."""
TIMEOUT = 5.0
"""Seconds for one attempt."""

_FIRST, _LONGEST = 10.0, 600.0
"""Seconds after the first failed attempt, and the maximum. Each interval is twice as long as the one before."""
_NOT_YET = 5
"""A cluster that never answered counts as failed after this number of attempts."""
_MAX_CAUSE = 200
"""Characters of an error that are kept."""

_FAILURES = re.compile(r"\(attempt (\d+) at (\S+), failing since (\S+): ")


@dataclass(frozen=True)
class Probe:
    """The outcome of an attempt."""

    outcome: Literal["succeeded", "failed", "skipped"]
    """`skipped`: this process has too many connections in progress."""
    error: str = ""


@dataclass(frozen=True)
class Failures:
    """The attempts that failed since the last success."""

    attempts: int
    last: datetime
    since: datetime

    @property
    def next(self) -> datetime:
        """When the next attempt is due."""
        return self.last + timedelta(seconds=min(_LONGEST, _FIRST * 2 ** min(self.attempts - 1, 10)))

    def to_text(self, error: str) -> str:
        """Returns the text that `failures` parses."""
        at, since = rfc3339(self.last), rfc3339(self.since)
        return f"(attempt {self.attempts} at {at}, failing since {since}: {error[:_MAX_CAUSE]})"


def failures(cluster: Object) -> Failures | None:
    """Returns the failed attempts that the Cluster's condition records."""
    found = _FAILURES.search((get_condition(dig(cluster, "status.conditions"), PROBED) or {}).get("message") or "")
    try:
        return found and Failures(int(found[1]), datetime.fromisoformat(found[2]), datetime.fromisoformat(found[3]))
    except ValueError:
        return None


def due(cluster: Object, now: datetime, *, again: bool = False) -> float | None:
    """Returns the seconds until an attempt is due; None if all is well, or there is nothing to connect to yet.

    With `again` an attempt is also due if all is well.
    """
    if deleting(cluster) or not has_kubeconfig(cluster):
        return None
    recorded = failures(cluster)
    if recorded is None:
        return None if is_true(dig(cluster, "status.conditions"), PROBED) and not again else 0.0
    return max(0.0, (recorded.next - now).total_seconds())


def has_kubeconfig(cluster: Object) -> bool:
    """Returns whether the Cluster reports an API server and a kubeconfig, created by us or by the control plane."""
    initialized = cluster_api.control_plane_ref(cluster) and cluster_api.control_plane_initialized(cluster)
    available = is_true(dig(cluster, "status.conditions"), KUBECONFIG_AVAILABLE)
    reachable = cluster_api.infrastructure_provisioned(cluster) and cluster_api.endpoint(cluster) is not None
    return reachable and bool(initialized or available)


def probe(clients: Clients, cluster: Object) -> Probe:
    """Connects to the workload cluster once. Raises `ApiError` if the management cluster's API server fails."""
    workload = open_workload(clients, key_of(cluster))
    if isinstance(workload, ConnectionFailed):
        return Probe("failed", workload.message)
    try:
        _ask(workload.clients.client)
    except NotSent:
        return Probe("skipped")
    except ApiError as error:
        if isinstance(error, Unauthorized):
            clients.forget(workload.kubeconfig)
        return Probe("failed", str(error))
    return Probe("succeeded")


def _ask(client: Client) -> None:
    """Sends a request that any user may send. If the server lacks this path, sends the request of Cluster API core."""
    try:
        client.text("/version", timeout=TIMEOUT)
    except NotServed:
        client.text("/", timeout=TIMEOUT)


def set_remote_connection_probe(builder: ClusterStatusBuilder, attempt: Probe | None, *, waits_on: bool) -> None:
    """Sets the condition to the outcome of an attempt; without one it stays as it is.

    Requeues the Cluster for the next attempt; with `waits_on`, only if the attempt is due now, because the former
    requeue is still pending.
    """
    before = get_condition(builder.initial, PROBED)
    if attempt is None or attempt.outcome == "skipped":
        reason, message = "ProbeFailed", "Remote connection not established yet"
        before = before or {"status": "False", "reason": reason, "message": message}
        builder.set(PROBED, before["status"], before.get("reason") or reason, before.get("message") or "")
        left = due(builder.cluster, builder.now)
        waits_on = waits_on and attempt is None
        if left is not None and not waits_on:
            builder.waits.append(left or _FIRST)
        if left == 0 and waits_on:
            builder.waits.append(0.0)
    elif attempt.outcome == "succeeded":
        failed = before is not None and before["status"] == "False" and not _never_succeeded(before)
        builder.set(PROBED, "True", "ProbeSucceeded", event_type="Normal" if failed else "")
    else:
        _set_failed(builder, before, attempt.error)


def _set_failed(builder: ClusterStatusBuilder, before: Object | None, error: str) -> None:
    earlier = failures(builder.cluster)
    now = Failures(earlier.attempts + 1 if earlier else 1, builder.now, earlier.since if earlier else builder.now)
    builder.waits.append((now.next - builder.now).total_seconds())
    details = now.to_text(error)
    worked = before is not None and before["status"] == "True"
    if worked and now.last - now.since <= GRACE:
        builder.set(PROBED, "True", "ProbeSucceeded", f"Remote connection probe fails {details}")
    elif not worked and _never_succeeded(before) and now.attempts < _NOT_YET:
        builder.set(PROBED, "False", "ProbeFailed", f"Remote connection not established yet {details}")
    else:
        message = f"Remote connection probe failed {details}"
        builder.set(
            PROBED, "False", "ProbeFailed", message, event_type="Warning", progress=not _never_succeeded(before)
        )


def _never_succeeded(condition: Object | None) -> bool:
    return condition is None or (condition.get("message") or "").startswith("Remote connection not established yet")
