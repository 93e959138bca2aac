"""Builds the document about an object that is not a Cluster: its state, what belongs to it, and its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.names import addon_of
from shared.api.resource_set import binding_entry
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_ROLLOUT,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
)
from shared.applier import inventory
from shared.helm_proxies.names import HCP_NAME_LABEL
from shared.kube import ApiError, Client, Key, Object, dig, key_of
from shared.kube.resources import owned_by, owners
from shared.kube.selectors import selects

from ..listing import Row, Verdict, cluster_row, row_of
from ..text import age
from .cluster_objects import events_about, release_of
from .conditions import filled, remedy
from .document import describe_addon, describe_event, describe_inventory, describe_object, mappings


def describe_row(client: Client, row: Row, now: datetime) -> Object:
    """Returns the document of an object as JSON, without empty values.

    Args:
        client: The client of the management cluster; objects that it cannot read are named in `problem`.
        row: The object, as `get` lists it.
        now: The present time.
    """
    kind = row.obj["kind"]
    related: list[Row] = []
    problem = ""
    try:
        related += _RELATED[kind](client, row.obj) if kind in _RELATED else ()
    except ApiError as error:
        problem = str(error)
    related.sort(key=lambda each: (each.verdict.ready == "True", key_of(each.obj)))
    entries = inventory.load(dig(row.obj, "status.resources"))
    found: Object = filled(
        {
            **describe_object(row.obj, now),
            **summary(row),
            "for": age(row.verdict.since, now),
            "paused": cluster_api.is_paused(row.obj) or None,
            **({"addon": describe_addon(row.obj, now)} if kind == CLUSTER_ADDON.kind else {}),
            "inventory": describe_inventory(entries) if kind != CLUSTER_ADDON.kind and entries else {},
            "objects": [summary(one) for one in related],
            "problem": problem,
            "events": [describe_event(event, now) for event in events_about(client, row.obj)],
        }
    )
    return found


def summary(row: Row) -> Object:
    """Returns a row as JSON: the object, its columns, its verdict, and what to do."""
    key, verdict = key_of(row.obj), row.verdict
    return {
        "kind": row.obj["kind"],
        "namespace": key.namespace,
        "name": key.name,
        "columns": {_field(heading): text for heading, text in row.cells.items() if text},
        "ready": verdict.ready,
        "reason": verdict.reason,
        "message": verdict.message,
        **remedy(row.obj["kind"], verdict.reason),
    }


def _field(heading: str) -> str:
    """Returns the heading of a column as the name of a field."""
    first, *others = heading.lower().split()
    return first + "".join(map(str.capitalize, others))


def _releases_of_stack(client: Client, stack: Object) -> Iterator[Row]:
    for release in client.list(CLUSTER_STACK_RELEASE, key_of(stack).namespace):
        if owned_by(release, stack):
            yield row_of(release)


def _clusters_of_release(client: Client, release: Object) -> Iterator[Row]:
    for cluster in client.list(CLUSTER):
        if release_of(cluster) == key_of(release):
            yield cluster_row(cluster, client.find(CLUSTER_ADDON, addon_of(cluster)))


def _cluster_of_addon(client: Client, addon: Object) -> Iterator[Row]:
    key = Key(key_of(addon).namespace, str(dig(addon, "spec.clusterRef.name") or ""))
    if key.name and (cluster := client.find(CLUSTER, key)):
        yield cluster_row(cluster, addon)


def _releases_of_chart(client: Client, chart: Object) -> Iterator[Row]:
    key = key_of(chart)
    for release in client.list(HELM_RELEASE_PROXY, key.namespace, selector=f"{HCP_NAME_LABEL}={key.name}"):
        yield row_of(release)


def _chart_of_release(client: Client, release: Object) -> Iterator[Row]:
    for reference in owners(release, HELM_CHART_PROXY.kind, HELM_CHART_PROXY.group):
        if chart := client.find(HELM_CHART_PROXY, Key(key_of(release).namespace, str(reference.get("name")))):
            yield row_of(chart)


def _clusters_of_set(client: Client, resource_set: Object) -> Iterator[Row]:
    """Yields the Clusters of a set with the number of sources that were applied to each."""
    key = key_of(resource_set)
    for binding in client.list(CLUSTER_RESOURCE_SET_BINDING, key.namespace):
        if entry := binding_entry(binding, key.name):
            sources = mappings(entry, "resources")
            failed = [f"{one.get('kind')} {one.get('name')}" for one in sources if one.get("applied") is not True]
            cluster = {"kind": CLUSTER.kind, "metadata": binding["metadata"]}
            why = ("", f"not applied: {', '.join(failed)}") if failed else ()
            cells = {"APPLIED": f"{len(sources) - len(failed)} of {len(sources)} sources"}
            yield Row(cluster, cells, Verdict("False" if failed else "True", *why))


def _clusters_of_rollout(client: Client, rollout: Object) -> Iterator[Row]:
    key = key_of(rollout)
    addons = {key_of(addon): addon for addon in client.list(CLUSTER_ADDON, key.namespace)}
    for cluster in client.list(CLUSTER, key.namespace):
        if selects(dig(rollout, "spec.clusterSelector", {}), dig(cluster, "metadata.labels", {})):
            yield cluster_row(cluster, addons.get(addon_of(cluster)))


_RELATED: Mapping[str, Callable[[Client, Object], Iterable[Row]]] = {
    CLUSTER_STACK.kind: _releases_of_stack,
    CLUSTER_STACK_RELEASE.kind: _clusters_of_release,
    CLUSTER_ADDON.kind: _cluster_of_addon,
    HELM_CHART_PROXY.kind: _releases_of_chart,
    HELM_RELEASE_PROXY.kind: _chart_of_release,
    CLUSTER_RESOURCE_SET.kind: _clusters_of_set,
    CLUSTER_ROLLOUT.kind: _clusters_of_rollout,
}
"""By kind: reads the objects that belong to an object, or that it belongs to."""
