"""The tree of a Cluster for its page: its objects down to Machines and the objects of addons and charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.operations.describe.cluster_objects import ClusterObjects
from infra.operations.describe.document import describe_object, mappings
from infra.operations.listing import row_of
from shared.api.conditions import READY, get_condition
from shared.api.resources import HELM_RELEASE_PROXY
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry
from shared.kube import Object, dig, key_of
from shared.kube.resources import owner_references

_MOST = 1_000
"""Objects of one addon or chart that a page shows."""
_ROOT = ""
"""In place of a uid: the Cluster itself, or an owner that is not in the tree."""


@dataclass(frozen=True)
class Node:
    """A row of the tree with the rows below it.

    Attributes:
        kind: The kind of the object.
        name: Its name, with the namespace where it can differ.
        state: `good`, `bad`, or empty if the object reports neither.
        detail: Its phase, version or error in some words.
        conditions: Its conditions as the document of `describe` has them.
        children: The rows below.
    """

    kind: str
    name: str
    state: str = ""
    detail: str = ""
    conditions: Sequence[Object] = ()
    children: Sequence[Node] = ()


def tree(objects: ClusterObjects, document: Object, now: datetime) -> list[Node]:
    """Returns the rows below a Cluster.

    Args:
        objects: The objects around the Cluster.
        document: The document of `describe` about them.
        now: The present time.
    """
    control_plane, parts = objects.control_plane.object, objects.parts
    parents = {dig(obj, "metadata.uid") for obj in parts.objects}
    if control_plane:
        parents.add(dig(control_plane, "metadata.uid"))
    below: dict[Any, list[Object]] = defaultdict(list)
    for obj in sorted(parts.objects, key=lambda each: (each["kind"], key_of(each))):
        owners = [reference.get("uid") for reference in owner_references(obj)]
        below[next((uid for uid in owners if uid in parents and uid != dig(obj, "metadata.uid")), _ROOT)].append(obj)

    def nodes(uid: Any, depth: int = 0) -> list[Node]:
        # Owner references of a tenant can form a circle, which no row outside of it refers to; depth bounds the rest.
        return (
            [_labelled(obj, nodes(dig(obj, "metadata.uid"), depth + 1), now) for obj in below[uid]] if depth < 5 else []
        )

    addon, release = document.get("addon", {}), document.get("release", {})
    expected = bool(release) or addon.get("state") != "absent"  # without a cluster stack there is no ClusterAddon
    rows = [
        _part(document["infrastructure"]) if "infrastructure" in document else None,
        _part(document["controlPlane"], nodes(dig(control_plane, "metadata.uid")) if control_plane else ())
        if "controlPlane" in document
        else None,
        *nodes(_ROOT),
        _part(addon, _inventory(objects.addon.object or {})) if "kind" in addon and expected else None,
        _part(release) if release and release.get("state") != "absent" else None,  # a class needs no release
        *_sets(parts.binding or {}),
    ]
    return [row for row in rows if row]


def _part(part: Object, children: Sequence[Node] = ()) -> Node:
    """Returns the row of an object that the document describes."""
    problem = {"absent": "does not exist", "failed": "cannot be read"}.get(part.get("state", ""), "")
    detail = ": ".join(text for text in (problem, part.get("error", "")) if text)
    conditions = part.get("conditions", ())
    return Node(
        part.get("kind", ""),
        part.get("name", ""),
        "bad" if problem else _state(conditions),
        detail,
        conditions,
        children,
    )


def _labelled(obj: Object, children: Sequence[Node], now: datetime) -> Node:
    described = describe_object(obj, now)
    is_release = obj["kind"] == HELM_RELEASE_PROXY.kind
    conditions = described["conditions"]
    return Node(
        obj["kind"],
        described["name"],
        _state(conditions),
        ", ".join(map(str, filter(None, _release_detail(obj) if is_release else _machine_detail(obj)))),
        conditions,
        _inventory(obj) if is_release else children,
    )


def _machine_detail(obj: Object) -> tuple[Any, ...]:
    replicas = dig(obj, "spec.replicas")
    ready = f"{dig(obj, 'status.readyReplicas', 0)} of {replicas} replicas ready" if replicas is not None else ""
    version = dig(obj, "spec.version") or dig(obj, "spec.template.spec.version")
    return dig(obj, "status.phase"), version, ready, dig(obj, "status.nodeRef.name")


def _release_detail(obj: Object) -> tuple[Any, ...]:
    cells = row_of(obj).cells
    revision = f"revision {cells['REVISION']}" if cells["REVISION"] else ""
    return f"chart {cells['CHART']} {cells['VERSION']}".rstrip(), cells["STATUS"], revision


def _sets(binding: Object) -> list[Node]:
    """Returns a row for each ClusterResourceSet of a ClusterResourceSetBinding, with the sources that it applied."""
    rows = []
    for entry in mappings(binding, "spec.bindings"):
        sources = [
            Node(str(one.get("kind")), str(one.get("name")), *_applied(one)) for one in mappings(entry, "resources")
        ]
        state = "good" if all(source.state == "good" for source in sources) else "bad"
        rows.append(Node("ClusterResourceSet", str(entry.get("clusterResourceSetName")), state, "", (), sources))
    return rows


def _applied(source: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the state and the detail of a source of a ClusterResourceSet."""
    if source.get("applied") is True:
        return "good", f"applied at {source.get('lastAppliedTime')}"
    return "bad", "not applied"


def _inventory(owner: Object) -> list[Node]:
    """Returns the rows of the objects that a ClusterAddon or HelmReleaseProxy has applied, failing ones first."""
    entries = inventory.load(dig(owner, "status.resources"))
    rows = [_entry(entry) for entry in sorted(entries, key=lambda each: (not each.error, not each.waiting, str(each)))]
    more = [Node("", f"and {len(rows) - _MOST} more objects")] if len(rows) > _MOST else []
    return rows[:_MOST] + more


def _entry(entry: InventoryEntry) -> Node:
    good = entry.status == SYNCED and not entry.error and not entry.waiting
    kind, _, name = str(entry).partition(" ")
    return Node(kind, name, "good" if good else "bad", entry.error or entry.waiting or ("" if good else entry.status))


def _state(conditions: Iterable[Object]) -> str:
    listed = list(conditions)
    found = get_condition(listed, READY) or get_condition(listed, "Available") or {}
    return "good" if found.get("status") == "True" else "bad" if found.get("status") == "False" else ""
