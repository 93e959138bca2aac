"""Taking it down: deletes what is left over, and before the Pods whatever would make them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.clients import Clients, ClusterClients
from shared.kube import ApiError, Conflict, Key, Object, Resource, Unavailable, deleting, dig, key_of

from .leftovers import POD, Leftovers

_MOST_OWNERS = 8


@dataclass(frozen=True)
class Remove:
    """Returns what could not be deleted, each in a few words. Raises `Unavailable` where the server fails."""

    workload: ClusterClients
    leftovers: Leftovers

    def execute(self, _clients: Clients) -> list[str]:
        failures: dict[str, None] = {}
        done: set[str] = set()
        for resource, obj in self._in_order():
            uid = obj["metadata"]["uid"]
            if uid in done:
                continue
            done.add(uid)
            try:
                self.workload.client.delete(resource, key_of(obj), uid=uid)
            except Conflict:
                continue  # recreated since: the next reconcile finds it
            except Unavailable:
                raise
            except ApiError as error:
                failures[str(error)] = None
        return list(failures)

    def _in_order(self) -> Iterator[tuple[Resource, Object]]:
        for resource, obj in self.leftovers.removable:
            if resource == POD:
                yield from self._maker(obj)
            yield resource, obj

    def _maker(self, pod: Object) -> Iterator[tuple[Resource, Object]]:
        """The topmost controller above a Pod (a StatefulSet, or what made it in turn)."""
        found: tuple[Resource, Object] | None = None
        below = pod
        for _ in range(_MOST_OWNERS):
            above = self._controller(below)
            if above is None:
                break
            found, below = above, above[1]
        if found is not None and not deleting(found[1]):
            yield found

    def _controller(self, obj: Object) -> tuple[Resource, Object] | None:
        references = dig(obj, "metadata.ownerReferences", [])
        reference = next((one for one in references if one.get("controller") is True), None)
        if reference is None:
            return None
        resource = self.workload.discovery.resource(reference["apiVersion"], reference["kind"])
        if resource is None or not resource.namespaced:
            return None  # a Node, say, which owns what the kubelet runs by itself
        owner = self.workload.client.find(resource, Key(obj["metadata"]["namespace"], reference["name"]))
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return None
        return resource, owner
