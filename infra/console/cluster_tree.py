"""The tree of a Cluster for its page: the objects that it refers to, down to Machines and addon objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from infra.operations.describe.cluster_objects import ClusterObjects
from infra.operations.describe.document import describe_object
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import READY, get_condition
from shared.api.resources import MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry
from shared.kube import ApiError, Client, Key, NotServed, Object, dig, key_of
from shared.kube.resources import owner_references

_MACHINE_KINDS = (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE_POOL, MACHINE)
_MOST = 1_000
"""Objects of one kind that a page shows."""
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


@dataclass(frozen=True)
class Machines:
    """The machine objects of a Cluster, and why some kinds could not be read."""

    objects: Sequence[Object] = ()
    problems: Sequence[str] = ()


def read_machines(management: Client, cluster: Key) -> Machines:
    """Reads the MachineDeployments, MachineSets, MachinePools and Machines of a Cluster, by their label."""
    objects: list[Object] = []
    problems = []
    for kind in _MACHINE_KINDS:
        selector = f"{CLUSTER_NAME_LABEL}={cluster.name}"
        try:
            found = list(islice(management.list(kind, cluster.namespace, selector=selector), _MOST + 1))
        except NotServed:
            continue
        except ApiError as error:
            problems.append(str(error))
            continue
        if len(found) > _MOST:
            problems.append(f"only {_MOST} objects of the kind {kind.kind} are shown")
        objects += found[:_MOST]
    return Machines(objects, problems)


def tree(objects: ClusterObjects, document: Object, machines: Machines, now: datetime) -> list[Node]:
    """Returns the rows below a Cluster.

    Args:
        objects: The objects around the Cluster.
        document: The document of `describe` about them.
        machines: The machine objects of the Cluster.
        now: The present time.
    """
    control_plane = objects.control_plane.object
    parents = {dig(obj, "metadata.uid") for obj in machines.objects}
    if control_plane:
        parents.add(dig(control_plane, "metadata.uid"))
    below: dict[Any, list[Object]] = defaultdict(list)
    for obj in sorted(machines.objects, key=lambda each: (each["kind"], key_of(each))):
        owners = [reference.get("uid") for reference in owner_references(obj)]
        below[next((uid for uid in owners if uid in parents and uid != dig(obj, "metadata.uid")), _ROOT)].append(obj)

    def nodes(uid: Any, depth: int = 0) -> list[Node]:
        # Owner references of a tenant can form a circle, which no row outside of it refers to; depth bounds the rest.
        return (
            [_machine(obj, nodes(dig(obj, "metadata.uid"), depth + 1), now) for obj in below[uid]] if depth < 5 else []
        )

    release = document.get("release")
    rows = [
        _part(document["infrastructure"]) if "infrastructure" in document else None,
        _part(document["controlPlane"], nodes(dig(control_plane, "metadata.uid")) if control_plane else ())
        if "controlPlane" in document
        else None,
        *nodes(_ROOT),
        _part(document["addon"], _addon_objects(objects.addon.object or {})) if "addon" in document else None,
        _part(release) if release and release.get("state") != "absent" else None,  # a class needs no release
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


def _machine(obj: Object, children: Sequence[Node], now: datetime) -> Node:
    described = describe_object(obj, now)
    replicas = dig(obj, "spec.replicas")
    ready = f"{dig(obj, 'status.readyReplicas', 0)} of {replicas} replicas ready" if replicas is not None else ""
    version = dig(obj, "spec.version") or dig(obj, "spec.template.spec.version") or ""
    parts = (dig(obj, "status.phase", ""), version, ready, dig(obj, "status.nodeRef.name", ""))
    conditions = described["conditions"]
    return Node(
        obj["kind"],
        described["name"],
        _state(conditions),
        ", ".join(map(str, filter(None, parts))),
        conditions,
        children,
    )


def _addon_objects(addon: Object) -> list[Node]:
    entries = inventory.load(dig(addon, "status.resources"))
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
