"""Verifies that the workload cluster contains the objects of a release, and what an upgrade changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from infra.operations.addons.render import render_release
from shared.addons.owner import OWNER
from shared.applier.inventory import load
from shared.kube import Object, deleting, dig

from . import RELEASES
from .demo_objects import DemoError, DemoObjects

Objects = dict[str, Object]
"""Live objects of the workload cluster by `Kind namespace/name`."""


def verify(objects: DemoObjects, addon: Object, release: str) -> Objects:
    """Verifies that inventory and workload cluster have exactly the objects of the release, managed by this project.

    Returns the live objects. Raises `DemoError`.
    """
    live = {str(entry): objects.applied(entry) for entry in load(dig(addon, "status.resources"))}
    missing = [name for name, obj in live.items() if obj is None or not OWNER.has_labels(obj)]
    if missing:
        raise DemoError(f"not in the workload cluster, or without the label of the ClusterAddon: {', '.join(missing)}")
    found = {name: obj for name, obj in live.items() if obj is not None}
    rendered = _names(render_release(RELEASES / release, {"Cluster": objects.cluster() or {}}))
    if _names(found.values()) != rendered:
        raise DemoError(f"{release} renders {len(rendered)} objects, the inventory has {len(found)}")
    return found


def compare(objects: DemoObjects, before: Objects, after: Objects, progress: Callable[[str], None]) -> str:
    """Returns a summary of an upgrade. Raises `DemoError` unless it added, changed and pruned objects."""
    new, gone = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    changed = [name for name in sorted(after.keys() & before.keys()) if _content(before[name]) != _content(after[name])]
    for mark, names in (("+", new), ("~", changed), ("-", gone)):
        for name in names:
            progress(f"  {mark} {name}")
    for name in gone:
        still = objects.live(before[name])
        if still is not None and not deleting(still):
            raise DemoError(f"{name} should have been pruned")
    if not (new and changed and gone):
        raise DemoError(f"the upgrade should add, change and prune: +{new} ~{changed} -{gone}")
    return f"{len(new)} new, {len(changed)} changed, {len(gone)} pruned"


def _names(objects: Iterable[Object]) -> set[tuple[str, str]]:
    return {(obj["kind"], obj["metadata"]["name"]) for obj in objects}


def _content(obj: Object) -> Object:
    """Returns the object without status and server-side metadata, whose changes are ignored."""
    metadata = {name: obj["metadata"].get(name) for name in ("labels", "annotations")}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
