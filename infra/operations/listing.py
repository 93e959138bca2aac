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

    read: Callable[[Client, str, str], Iterable[Row]]
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


def row_of(obj: Object) -> Row:
    """Returns the row of an object of a kind in `_CELLS`, which depends on nothing else."""
    cells = {
        heading: cell(obj) if callable(cell) else _text(obj, cell) for heading, cell in _CELLS[obj["kind"]].items()
    }
    condition = "ResourcesApplied" if obj["kind"] == CLUSTER_RESOURCE_SET.kind else READY
    return Row(obj, cells, _reconciled(obj, _verdict(obj, condition)))


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


def _rows_of(resource: Resource) -> Kind:
    return Kind(lambda client, namespace, selector: map(row_of, client.list(resource, namespace, selector=selector)))


def _providers(client: Client, namespace: str, selector: str) -> Iterator[Row]:
    yield from map(provider_row, list_providers(client, namespace, selector))


KINDS = {
    "clusters": Kind(_clusters),
    "stacks": _rows_of(CLUSTER_STACK),
    "releases": _rows_of(CLUSTER_STACK_RELEASE),
    "addons": _rows_of(CLUSTER_ADDON),
    "charts": _rows_of(HELM_CHART_PROXY),
    "helm-releases": _rows_of(HELM_RELEASE_PROXY),
    "sets": _rows_of(CLUSTER_RESOURCE_SET),
    "rollouts": _rows_of(CLUSTER_ROLLOUT),
    "providers": Kind(_providers, everywhere=True),
}


def _text(obj: Any, path: str) -> str:
    value = dig(obj, path)
    return value if isinstance(value, str) else ""


def _count(obj: Object, path: str) -> str:
    value = dig(obj, path)
    return str(len(value)) if isinstance(value, list) else "0"


def _targets(rollout: Object) -> str:
    return str(sum(int(dig(one, "count", 0)) for one in dig(rollout, "status.rollout.partitions", [])))


_CELLS: Mapping[str, Mapping[str, str | Callable[[Object], str]]] = {
    CLUSTER_STACK.kind: {
        "KUBERNETES": "spec.kubernetesVersion",
        "CHANNEL": "spec.channel",
        "USABLE": "status.usableVersions",
        "LATEST": "status.latestRelease",
    },
    CLUSTER_STACK_RELEASE.kind: {"KUBERNETES": "status.kubernetesVersion"},
    CLUSTER_ADDON.kind: {
        "CLUSTER": "spec.clusterRef.name",
        "WANTED": "status.release",
        "APPLIED": "spec.clusterStack",
        "ADDONS": "spec.version",
    },
    HELM_CHART_PROXY.kind: {
        "CHART": "spec.chartName",
        "VERSION": lambda chart: _text(chart, "spec.version") or "newest",
        "CLUSTERS": lambda chart: _count(chart, "status.matchingClusters"),
    },
    HELM_RELEASE_PROXY.kind: {
        "CLUSTER": "spec.clusterRef.name",
        "CHART": "spec.chartName",
        "VERSION": lambda release: _text(release, "status.chartVersion") or _text(release, "spec.version"),
        "REVISION": lambda release: str(dig(release, "status.revision") or ""),
        "STATUS": "status.status",
    },
    CLUSTER_RESOURCE_SET.kind: {
        "STRATEGY": lambda found: _text(found, "spec.strategy") or "ApplyOnce",
        "SOURCES": lambda found: _count(found, "spec.resources"),
    },
    CLUSTER_ROLLOUT.kind: {
        "CLASS": "spec.topology.classRef.name",
        "KUBERNETES": "spec.topology.version",
        "CLUSTERS": _targets,
    },
}
"""By kind: the cells by heading, as the path of a field or as a function of the object."""


def _cluster_verdict(cluster: Object, addon: Object | None) -> Verdict:
    """Judges a Cluster and its addons; addons do not count if the class does not belong to a cluster stack."""
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
