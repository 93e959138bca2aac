"""The Prometheus metrics of a process: `metrics.OBJECTS.labels(outcome="applied").inc(3)`.

Counters begin at zero with the process, as Prometheus expects. Labels have few and known values: never a name, a
namespace or a message. `infra.reference` writes docs/reference/metrics.md from them.
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

DELIVERIES = Counter(
    "capi_functions_deliveries",
    "Answers to events: reconciled (the object already was, one read at most), done, next (with an event for another "
    "function), waiting (202, to be delivered again), transient (503, a retry may succeed), refused (4xx), failed "
    "(500, a bug)",
    ("function", "outcome"),
)
SECONDS = Histogram(
    "capi_functions_delivery_seconds",
    "Seconds from an event's arrival to its answer",
    ("function",),
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
REQUESTS = Counter(
    "capi_functions_api_requests",
    "Requests to API servers, management or workload, by HTTP method, retries included",
    ("cluster", "verb"),
)
OBJECTS = Counter("capi_functions_addon_objects", "Objects of addons: applied, pruned, failed", ("outcome",))
DRIFT = Counter("capi_functions_drift_repaired", "Objects of addons that had drifted and were applied again")
WAITED = Histogram(
    "capi_functions_waited_seconds",
    "Seconds for which a condition was False, observed when that ends",
    ("function", "condition"),
    buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600),
)
RELEASE_FETCHES = Counter(
    "capi_functions_release_fetches",
    "Requests for releases: fetched, present (nothing to do), held (too soon after a failure), unwanted (no object "
    "refers to it), invalid (fetched, but not a valid release), failed",
    ("outcome",),
)
CHART_FETCHES = Counter(
    "capi_functions_chart_fetches",
    "Requests for charts: fetched, present, held, invalid, failed, as for releases",
    ("outcome",),
)
DEAD_LETTERS = Counter(
    "capi_functions_dead_letters",
    "Events that no function handled: kept in object storage, or lost because that failed",
    ("outcome",),
)
HOOKS = Counter(
    "capi_functions_hooks",
    "Calls of runtime hooks: continue (nothing to wait for), block, overdue (no longer blocked after the deadline), "
    "refused, failed",
    ("hook", "outcome"),
)
OBJECT_FAILURES = Counter(
    "capi_functions_object_failures",
    "Objects that are skipped because the declaration of a function, such as its mapping to a primary object, failed "
    "on them; the function is forwarder if the object cannot be observed. The log names each object once",
    ("function",),
)
FORWARDED = Counter(
    "capi_functions_forwarder_deliveries",
    "Deliveries of the forwarder, by the outcomes of answers; done includes reconciled",
    ("function", "outcome"),
)
REDUCED = Counter(
    "capi_functions_forwarder_reduced",
    "Events that lost their object because the queue was full, so that the function reads the object",
    ("function",),
)
WATCH_RESTARTS = Counter(
    "capi_functions_forwarder_watch_restarts",
    "Watches that ended early: ended by the server, silent (neither event nor bookmark for two minutes), expired "
    "(410), failed (also lists)",
    ("reason",),
)
# Gauges of the forwarder have labels so that other processes have no series of them.
QUEUE_ITEMS = Gauge(
    "capi_functions_forwarder_queue_items",
    "Items in the queue: ready, in_flight, waiting; failing is the part of waiting whose last delivery failed",
    ("state",),
)
QUEUE_BYTES = Gauge(
    "capi_functions_forwarder_queue_bytes",
    "Estimated memory of the queued events; beyond 64 MiB events lose their objects",
    ("shard",),
)
QUEUE_OLDEST = Gauge(
    "capi_functions_forwarder_oldest_seconds", "Age of the oldest event that is due and not delivered yet", ("shard",)
)
PROBLEMS = Gauge("capi_functions_forwarder_problems", "Problems in /readyz: watch, worker, queue, list", ("check",))
LEASE_HELD = Gauge(
    "capi_functions_forwarder_lease_held",
    "1 if this forwarder holds its Lease, 0 if it stands by; absent without a Lease",
    ("shard",),
)

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
