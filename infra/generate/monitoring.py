"""Generates alerts and a dashboard of the functions' metrics, for Prometheus and Grafana."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prometheus_client.metrics import MetricWrapperBase

from shared import metrics
from shared.kube.resources import Object


def counter(metric: MetricWrapperBase) -> str:
    """Returns the name of a counter's series."""
    return f"{metric._name}_total"  # the client library has no public name


def buckets(metric: MetricWrapperBase) -> str:
    """Returns the name of a histogram's buckets."""
    return f"{metric._name}_bucket"


def gauge(metric: MetricWrapperBase) -> str:
    """Returns the name of a gauge's series."""
    return str(metric._name)


_DELIVERIES = counter(metrics.DELIVERIES)
_OBJECTS = counter(metrics.OBJECTS)
_FETCHES = counter(metrics.RELEASE_FETCHES)
_LETTERS = counter(metrics.DEAD_LETTERS)


def alerts() -> Object:
    """Returns a file of Prometheus rules, also the `spec` of a PrometheusRule."""
    return {
        "groups": [
            {
                "name": "capi-functions",
                "rules": [
                    _alert(
                        "CapiFunctionFails",
                        f'sum by (function) (increase({_DELIVERIES}{{outcome="failed"}}[15m])) > 0',
                        "0m",
                        "critical",
                        "{{ $labels.function }} has a bug: its log has the details",
                    ),
                    _alert(
                        "CapiFunctionRetries",
                        f'sum by (function) (rate({_DELIVERIES}{{outcome="transient"}}[15m]))'
                        f" / sum by (function) (rate({_DELIVERIES}[15m])) > 0.5",
                        "15m",
                        "warning",
                        "most deliveries to {{ $labels.function }} fail: is an API server or the object store down?",
                    ),
                    _alert(
                        "CapiFunctionIsSlow",
                        f"histogram_quantile(0.9, sum by (function, le) (rate({buckets(metrics.SECONDS)}[15m]))) > 30",
                        "15m",
                        "warning",
                        "one delivery in ten to {{ $labels.function }} takes more than 30 s",
                    ),
                    _alert(
                        "CapiAddonObjectsFail",
                        f'increase({_OBJECTS}{{outcome="failed"}}[30m]) > 0',
                        "30m",
                        "warning",
                        "objects of addons cannot be applied: conditions of ClusterAddons name them",
                    ),
                    _alert(
                        "CapiReleasesAreNotFetched",
                        f'sum(increase({_FETCHES}{{outcome=~"failed|invalid"}}[30m])) > 0'
                        f' unless sum(increase({_FETCHES}{{outcome="fetched"}}[30m])) > 0',
                        "30m",
                        "warning",
                        "no release could be fetched: conditions of ClusterAddons and ClusterStacks say why",
                    ),
                    _alert(
                        "CapiEventsAreNotHandled",
                        f"sum(increase({_LETTERS}[30m])) > 0",
                        "0m",
                        "warning",
                        "no function handled some events: see `capi-functions dead-letter list`",
                    ),
                    _alert(
                        "CapiObjectsAreSkipped",
                        f"sum by (function) (increase({counter(metrics.OBJECT_FAILURES)}[30m])) > 0",
                        "0m",
                        "warning",
                        "{{ $labels.function }} cannot judge some objects: the log names each with a traceback",
                    ),
                    *_forwarder_alerts(),
                ],
            }
        ]
    }


def _forwarder_alerts() -> list[Object]:
    restarts = counter(metrics.WATCH_RESTARTS)
    return [
        _alert(
            "CapiForwarderQueueIsOld",
            f"max by (shard) ({gauge(metrics.QUEUE_OLDEST)}) > 300",
            "5m",
            "warning",
            "events of shard {{ $labels.shard }} wait for minutes: are the functions down or slow?",
        ),
        _alert(
            "CapiForwarderIsNotReady",
            f"max by (check) ({gauge(metrics.PROBLEMS)}) > 0",
            "10m",
            "critical",
            "a forwarder has problems with a {{ $labels.check }}: /readyz at its health port names them",
        ),
        _alert(
            "CapiForwarderWatchesFail",
            f'sum(rate({restarts}{{reason="failed"}}[15m])) > 0.05',
            "15m",
            "warning",
            "lists and watches of the forwarder fail: its log names the kinds",
        ),
        _alert(
            "CapiForwarderHoldsNoLease",
            f"max by (shard) ({gauge(metrics.LEASE_HELD)}) == 0",
            "2m",
            "critical",
            "no forwarder holds the Lease of shard {{ $labels.shard }}: no change is delivered",
        ),
    ]


def _alert(name: str, expression: str, after: str, severity: str, summary: str) -> Object:
    return {
        "alert": name,
        "expr": expression,
        "for": after,
        "labels": {"severity": severity},
        "annotations": {"summary": summary},
    }


_PANELS: Mapping[str, tuple[str, str, str]] = {
    "Deliveries": (f"sum by (outcome) (rate({_DELIVERIES}[$__rate_interval]))", "{{outcome}}", "ops"),
    "Deliveries that fail": (
        f'sum by (function, outcome) (rate({_DELIVERIES}{{outcome=~"failed|transient|refused"}}[$__rate_interval]))',
        "{{function}} {{outcome}}",
        "ops",
    ),
    "Duration of a delivery, 90 % are faster": (
        f"histogram_quantile(0.9, sum by (function, le) (rate({buckets(metrics.SECONDS)}[$__rate_interval])))",
        "{{function}}",
        "s",
    ),
    "Requests to API servers": (
        f"sum by (cluster, verb) (rate({counter(metrics.REQUESTS)}[$__rate_interval]))",
        "{{cluster}} {{verb}}",
        "reqps",
    ),
    "Objects of addons": (f"sum by (outcome) (rate({_OBJECTS}[$__rate_interval]))", "{{outcome}}", "ops"),
    "Drift repaired": (f"sum(increase({counter(metrics.DRIFT)}[$__rate_interval]))", "objects", "short"),
    "Waiting for a condition, the median": (
        f"histogram_quantile(0.5, sum by (condition, le) (rate({buckets(metrics.WAITED)}[1h])))",
        "{{condition}}",
        "s",
    ),
    "Releases": (f"sum by (outcome) (rate({_FETCHES}[$__rate_interval]))", "{{outcome}}", "ops"),
    "Dead letters": (f"sum by (outcome) (increase({_LETTERS}[$__rate_interval]))", "{{outcome}}", "short"),
    "Forwarder's queue": (f"sum by (state) ({gauge(metrics.QUEUE_ITEMS)})", "{{state}}", "short"),
    "Age of the oldest event that is due": (
        f"max by (shard) ({gauge(metrics.QUEUE_OLDEST)})",
        "shard {{shard}}",
        "s",
    ),
    "Deliveries of the forwarder": (
        f"sum by (outcome) (rate({counter(metrics.FORWARDED)}[$__rate_interval]))",
        "{{outcome}}",
        "ops",
    ),
    "Runtime hooks": (
        f"sum by (hook, outcome) (rate({counter(metrics.HOOKS)}[$__rate_interval]))",
        "{{hook}} {{outcome}}",
        "ops",
    ),
}
"""By title: expression, legend and unit."""


def dashboard() -> str:
    """Returns the text of a Grafana dashboard."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels: list[dict[str, Any]] = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {"h": 8, "w": 8, "x": number % 3 * 8, "y": number // 3 * 8},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "expr": expression, "legendFormat": legend}],
        }
        for number, (title, (expression, legend, unit)) in enumerate(_PANELS.items())
    ]
    content = {
        "title": "capi-functions",
        "uid": "capi-functions",
        "tags": ["cluster-api"],
        "schemaVersion": 39,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(content, indent=1) + "\n"
