"""The page of the Prometheus metrics: names, types, labels, meanings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics import MetricWrapperBase

from shared import metrics

from .markdown import HEAD, table

_HEAD = f"""{HEAD}# Metrics

[Metrics and logs](../metrics.md) has the ports, queries, alerts and a dashboard. The number of label values does not
grow with the number of clusters. The log, and conditions on the objects, name the cluster. `process_*` and `python_*`
come with the client library.
"""
_FORWARDER = "capi_functions_forwarder_"


def page() -> str:
    """Returns the text of the page."""
    found = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    functions = (metric for metric in found if not metric._name.startswith(_FORWARDER))
    forwarder = (metric for metric in found if metric._name.startswith(_FORWARDER))
    return (
        f"{_HEAD}\n## Functions\n\n{_table(functions)}\n## Forwarder\n\nThe forwarder has these on its own port "
        f"(`--health-port`), beside `{metrics.REQUESTS._name}_total`.\n\n{_table(forwarder)}"
    )


def _table(found: Iterable[MetricWrapperBase]) -> str:
    return table(("metric", "type", "labels", "meaning"), _rows(found))


def _rows(found: Iterable[MetricWrapperBase]) -> Iterator[tuple[str, str, str, str]]:
    for metric in found:
        name = metric._name + "_total" * (metric._type == "counter")  # the client library has no public names
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        yield f"`{name}`", str(metric._type), labels, f"{metric._documentation}."
