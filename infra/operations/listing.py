"""The objects of a management cluster in one line each, with one reason why an object is not ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.conditions import READY, get_condition
from shared.api.names import addon_of
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_ROLLOUT,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
)
from shared.kube import Client, Key, Object, Resource, deleting, dig, key_of

from .describe.conditions import NO_RELEASE
from .failure import Failure
from .providers.status import list_providers, status_of
from .text import age, plain

_BEFORE_ADDONS = ("InfrastructureReady", "ControlPlaneInitialized")
_AFTER_ADDONS = ("TopologyReconciled", "ControlPlaneAvailable", "WorkersAvailable", "RemoteConnectionProbe")
"""The conditions of a Cluster that missing addons can cause, because nodes are not ready before their network."""
WIDE = frozenset({"PHASE", "INFRASTRUCTURE", "CONTROL PLANE", "CHANNEL", "ADDONS", "CONTRACT"})
"""The columns that only the wide format has."""
_SHORT, _LONG = 100, 500
"""Characters of a reason with its message."""


@dataclass(frozen=True)
class Verdict:
    """Whether an object is ready (True, False or Unknown), and the one reason why it is not; empty if it is.

    `since` is the time from which the reason holds, as Kubernetes writes it; empty if no condition has it.
    """

    ready: str
    reason: str = ""
    message: str = ""
    since: str = field(default="", compare=False)

    def text(self, *, most: int = _SHORT) -> str:
        """Returns reason and message in one line of at most `most` characters."""
        return plain(": ".join(filter(None, (self.reason, self.message))), most=most)


@dataclass(frozen=True)
class Row:
    """One object and its cells by heading, without its reason."""

    obj: Object
    cells: Mapping[str, str]
    verdict: Verdict

    @property
    def identity(self) -> tuple[str, Key]:
        """The kind and the key of the object."""
        return self.obj["kind"], key_of(self.obj)

    @property
    def content(self) -> tuple[tuple[str, ...], Verdict]:
        """The cells and the verdict, which show changes of the line, while the age changes all the time."""
        return tuple(self.cells.values()), self.verdict


@dataclass(frozen=True)
class Kind:
    """A kind of objects that can be listed.

    Attributes:
        read: Returns the rows of the objects in a namespace (empty: in all) that a label selector selects.
        everywhere: Whether its objects are spread over namespaces, so that all namespaces are listed unless one is
            named.
    """

    read: Callable[[Client, str, str], Iterator[Row]]
    everywhere: bool = False


def list_rows(client: Client, kind: Kind, namespace: str, selector: str = "", names: Sequence[str] = ()) -> list[Row]:
    """Returns the rows of the objects, by default of all, in the order of their keys.

    Raises `ApiError`, or `Failure` if no object has one of the names.
    """
    found = sorted(kind.read(client, namespace, selector), key=lambda row: key_of(row.obj))
    if not names:
        return found
    if missing := set(names) - {key_of(row.obj).name for row in found}:
        where = f"in the namespace {namespace}" if namespace else "in any namespace"
        raise Failure(f"{', '.join(sorted(missing))} does not exist {where}; `-n` names another, `-A` all namespaces")
    return [row for row in found if key_of(row.obj).name in names]


def table(rows: Iterable[Row], now: datetime, *, wide: bool, namespaces: bool) -> list[tuple[str, ...]]:
    """Returns the cells of a table, its headings first; the reasons are the last column.

    Args:
        rows: The rows of objects of one kind, at least one.
        now: The present time.
        wide: Whether the table has all columns, and longer reasons.
        namespaces: Whether the table has a column for the namespace.
    """
    lines: list[tuple[str, ...]] = []
    for row in rows:
        key, chosen = key_of(row.obj), {name: text for name, text in row.cells.items() if wide or name not in WIDE}
        cells = {
            **({"NAMESPACE": key.namespace} if namespaces else {}),
            "NAME": key.name,
            **chosen,
            "READY": row.verdict.ready,
            "AGE": age(dig(row.obj, "metadata.creationTimestamp"), now),
        }
        if not lines:
            lines.append((*cells, "REASON"))
        why = row.verdict.text(most=_LONG if wide else _SHORT)
        lines.append((*(plain(cell, most=_SHORT) or "-" for cell in cells.values()), why))
    return lines


def cluster_row(cluster: Object, addon: Object | None) -> Row:
    """Returns the row of a Cluster with its ClusterAddon, if it has one."""
    cells = {
        "KUBERNETES": _text(cluster, "spec.topology.version"),
        "CLASS": cluster_api.class_name(cluster) or "",
        "APPLIED": _text(addon, "spec.clusterStack"),
        "PHASE": _text(cluster, "status.phase"),
        "INFRASTRUCTURE": (cluster_api.infrastructure_ref(cluster) or {}).get("kind", ""),
        "CONTROL PLANE": (cluster_api.control_plane_ref(cluster) or {}).get("kind", ""),
    }
    return Row(cluster, cells, _reconciled(cluster, _cluster_verdict(cluster, addon)))


def stack_row(stack: Object) -> Row:
    """Returns the row of a ClusterStack."""
    cells = {
        "KUBERNETES": _text(stack, "spec.kubernetesVersion"),
        "CHANNEL": _text(stack, "spec.channel"),
        "USABLE": _text(stack, "status.usableVersions"),
        "LATEST": _text(stack, "status.latestRelease"),
    }
    return Row(stack, cells, _reconciled(stack, _verdict(stack, READY)))


def stack_release_row(release: Object) -> Row:
    """Returns the row of a ClusterStackRelease."""
    cells = {"KUBERNETES": _text(release, "status.kubernetesVersion")}
    return Row(release, cells, _reconciled(release, _verdict(release, READY)))


def addon_row(addon: Object) -> Row:
    """Returns the row of a ClusterAddon."""
    cells = {
        "CLUSTER": _text(addon, "spec.clusterRef.name"),
        "WANTED": _text(addon, "status.release"),
        "APPLIED": _text(addon, "spec.clusterStack"),
        "ADDONS": _text(addon, "spec.version"),
    }
    return Row(addon, cells, _reconciled(addon, _verdict(addon, READY)))


def chart_row(chart: Object) -> Row:
    """Returns the row of a HelmChartProxy."""
    selected = dig(chart, "status.matchingClusters")
    cells = {
        "CHART": _text(chart, "spec.chartName"),
        "VERSION": _text(chart, "spec.version") or "newest",
        "CLUSTERS": str(len(selected)) if isinstance(selected, list) else "0",
    }
    return Row(chart, cells, _reconciled(chart, _verdict(chart, READY)))


def release_row(release: Object) -> Row:
    """Returns the row of a HelmReleaseProxy."""
    cells = {
        "CLUSTER": _text(release, "spec.clusterRef.name"),
        "CHART": _text(release, "spec.chartName"),
        "VERSION": _text(release, "status.chartVersion") or _text(release, "spec.version"),
        "REVISION": str(dig(release, "status.revision") or ""),
        "STATUS": _text(release, "status.status"),
    }
    return Row(release, cells, _reconciled(release, _verdict(release, READY)))


def resource_set_row(resource_set: Object) -> Row:
    """Returns the row of a ClusterResourceSet."""
    sources = dig(resource_set, "spec.resources")
    cells = {
        "STRATEGY": _text(resource_set, "spec.strategy") or "ApplyOnce",
        "SOURCES": str(len(sources)) if isinstance(sources, list) else "0",
    }
    return Row(resource_set, cells, _reconciled(resource_set, _verdict(resource_set, "ResourcesApplied")))


def rollout_row(rollout: Object) -> Row:
    """Returns the row of a ClusterRollout."""
    partitions = dig(rollout, "status.rollout.partitions", [])
    cells = {
        "CLASS": _text(rollout, "spec.topology.classRef.name"),
        "KUBERNETES": _text(rollout, "spec.topology.version"),
        "CLUSTERS": str(sum(int(dig(one, "count", 0)) for one in partitions)),
    }
    return Row(rollout, cells, _reconciled(rollout, _verdict(rollout, READY)))


def provider_row(provider: Object) -> Row:
    """Returns the row of a provider."""
    status = status_of(provider)
    cells = {
        "KIND": status.kind,
        "INSTALLED": status.installed,
        "WANTED": status.wanted or "newest",
        "CONTRACT": status.contract,
    }
    is_ready = status.ready == "True" and status.reason == READY
    return Row(provider, cells, Verdict(status.ready, *(() if is_ready else (status.reason, status.message))))


def _clusters(client: Client, namespace: str, selector: str) -> Iterator[Row]:
    addons = {key_of(addon): addon for addon in client.list(CLUSTER_ADDON, namespace)}
    for cluster in client.list(CLUSTER, namespace, selector=selector):
        yield cluster_row(cluster, addons.get(addon_of(cluster)))


def _rows_of(resource: Resource, row: Callable[[Object], Row]) -> Kind:
    """Returns the kind of objects whose row depends on nothing else."""

    def read(client: Client, namespace: str, selector: str) -> Iterator[Row]:
        yield from map(row, client.list(resource, namespace, selector=selector))

    return Kind(read)


def _providers(client: Client, namespace: str, selector: str) -> Iterator[Row]:
    yield from map(provider_row, list_providers(client, namespace, selector))


KINDS = {
    "clusters": Kind(_clusters),
    "stacks": _rows_of(CLUSTER_STACK, stack_row),
    "releases": _rows_of(CLUSTER_STACK_RELEASE, stack_release_row),
    "addons": _rows_of(CLUSTER_ADDON, addon_row),
    "charts": _rows_of(HELM_CHART_PROXY, chart_row),
    "helm-releases": _rows_of(HELM_RELEASE_PROXY, release_row),
    "sets": _rows_of(CLUSTER_RESOURCE_SET, resource_set_row),
    "rollouts": _rows_of(CLUSTER_ROLLOUT, rollout_row),
    "providers": Kind(_providers, everywhere=True),
}


def _text(obj: Any, path: str) -> str:
    value = dig(obj, path)
    return value if isinstance(value, str) else ""


def _cluster_verdict(cluster: Object, addon: Object | None) -> Verdict:
    """Judges a Cluster and its addons; addons of a class of no cluster stack do not count."""
    total = _verdict(cluster, "Available")
    before = [found for type in _BEFORE_ADDONS if (found := _verdict(cluster, type)).ready == "False"]
    after = [found for type in _AFTER_ADDONS if (found := _verdict(cluster, type)).ready == "False"]
    addons = [_verdict(addon, READY)] if addon else []
    addons = [one for one in addons if one.ready != "True" and one.reason != NO_RELEASE]
    if total.ready == "True":
        before = after = []
    causes = [*before, *addons, *after, *([total] if total.ready != "True" else [])]
    if not causes:
        return Verdict("True")
    cause = causes[0]
    ready = "False" if "False" in (total.ready, *(one.ready for one in causes)) else "Unknown"
    return Verdict(ready, cause.reason, cause.message, cause.since)


def _verdict(obj: Object, type: str) -> Verdict:
    """Returns the verdict of one condition; Unknown without it."""
    condition = get_condition(dig(obj, "status.conditions"), type)
    if condition is None:
        return Verdict("Unknown", "NotReconciled", f"no program has set the condition {type} yet")
    ready = str(condition.get("status") or "Unknown")
    if ready == "True":
        return Verdict(ready)
    return Verdict(ready, *(str(condition.get(part) or "") for part in ("reason", "message", "lastTransitionTime")))


def _reconciled(obj: Object, verdict: Verdict) -> Verdict:
    """Returns the verdict of an object that may be paused, or is being deleted."""
    if deleting(obj):
        why = get_condition(dig(obj, "status.conditions"), "Deleting") or {}
        return Verdict("False", str(why.get("reason") or "Deleting"), str(why.get("message") or ""))
    if cluster_api.is_paused(obj):
        return Verdict(verdict.ready, "Paused", "nothing changes until it is resumed")
    return verdict
