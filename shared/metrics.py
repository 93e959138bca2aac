"""The Prometheus metrics of a process: `metrics.OBJECTS.labels(outcome="applied").inc(3)`.

Counters begin at zero with the process, as Prometheus expects. Labels have few and known values: never a name, a
namespace or a message. docs/metrics.md describes each metric.
"""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # these would double the number of series

CONTENT_TYPE = CONTENT_TYPE_LATEST

OUTCOMES = ("applied", "pruned", "failed")
LETTERS = ("kept", "lost")
FETCHES = ("fetched", "present", "held", "unwanted", "invalid", "failed")

DELIVERIES = Counter("capi_functions_deliveries", "Events answered, by outcome", ("function", "outcome"))
SECONDS = Histogram(
    "capi_functions_delivery_seconds",
    "Seconds from an event to its answer",
    ("function",),
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
REQUESTS = Counter(
    "capi_functions_api_requests", "Requests sent to Kubernetes API servers, retries included", ("cluster", "verb")
)
OBJECTS = Counter("capi_functions_addon_objects", "Objects of addons, by outcome", ("outcome",))
DRIFT = Counter("capi_functions_drift_repaired", "Objects of addons that had drifted and were applied again")
WAITED = Histogram(
    "capi_functions_waited_seconds",
    "Seconds for which a condition was False, observed when that ends",
    ("function", "condition"),
    buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600),
)
RELEASE_FETCHES = Counter("capi_functions_release_fetches", "Requests for releases, by outcome", ("outcome",))
CHART_FETCHES = Counter("capi_functions_chart_fetches", "Requests for charts, by outcome", ("outcome",))
DEAD_LETTERS = Counter("capi_functions_dead_letters", "Events that are not delivered again, by outcome", ("outcome",))
HOOKS = Counter("capi_functions_hooks", "Calls of runtime hooks, by outcome", ("hook", "outcome"))
OBJECT_FAILURES = Counter(
    "capi_functions_object_failures", "Failures of a function's declaration on an object", ("function",)
)
FORWARDED = Counter(
    "capi_functions_forwarder_deliveries", "Deliveries of the forwarder, by outcome", ("function", "outcome")
)
REDUCED = Counter(
    "capi_functions_forwarder_reduced", "Events that lost their object because the queue was full", ("function",)
)
WATCH_RESTARTS = Counter("capi_functions_forwarder_watch_restarts", "Watches that ended early, by reason", ("reason",))
# Gauges of the forwarder have labels so that other processes have no series of them.
QUEUE_ITEMS = Gauge("capi_functions_forwarder_queue_items", "Items in the forwarder's queue", ("state",))
QUEUE_BYTES = Gauge("capi_functions_forwarder_queue_bytes", "Estimated memory of the queue's events", ("shard",))
QUEUE_OLDEST = Gauge("capi_functions_forwarder_oldest_seconds", "Age of the oldest event that is due", ("shard",))
PROBLEMS = Gauge("capi_functions_forwarder_problems", "What the probes of the forwarder report, by check", ("check",))
LEASE_HELD = Gauge("capi_functions_forwarder_lease_held", "Whether this forwarder holds its Lease", ("shard",))

# Create the series at once, so that a rate includes the first increment.
for _outcome in OUTCOMES:
    OBJECTS.labels(outcome=_outcome)
for _outcome in FETCHES:
    RELEASE_FETCHES.labels(outcome=_outcome)
    CHART_FETCHES.labels(outcome=_outcome)
for _outcome in LETTERS:
    DEAD_LETTERS.labels(outcome=_outcome)


def exposition() -> bytes:
    """Returns all metrics in the format of `CONTENT_TYPE`."""
    return generate_latest()
