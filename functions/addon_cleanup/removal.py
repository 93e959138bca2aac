"""Deletes leftovers, and before each Pod the controller that would recreate it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.api.resources import POD
from shared.clients import Clients, ClusterClients
from shared.kube import ApiError, Conflict, Key, Object, Resource, Unavailable, deleting, dig, key_of
from shared.kube.responses import understood

from .leftovers import Leftovers

_MAX_OWNERS = 8


@dataclass(frozen=True)
class RemoveLeftovers:
    """Deletes the leftovers that are not being deleted yet."""

    cluster: ClusterClients
    leftovers: Leftovers

    def execute(self, _clients: Clients) -> list[str]:
        """Returns the messages of rejected deletions; raises `Unavailable` if the API server fails."""
        with understood("objects to clean up"):
            return self._remove()

    def _remove(self) -> list[str]:
        failures: dict[str, None] = {}
        done: set[str] = set()
        for resource, obj in self._in_order():
            uid = obj["metadata"]["uid"]
            if uid in done:
                continue
            done.add(uid)
            try:
                self._delete(resource, obj)
            except Unavailable:
                raise
            except ApiError as error:
                failures[str(error)] = None
        return list(failures)

    def _delete(self, resource: Resource, obj: Object) -> None:
        client, key = self.cluster.client, key_of(obj)
        try:
            client.delete(resource, key, uid=obj["metadata"]["uid"])
        except Conflict as error:  # recreated since, and found by the next reconcile; or refused
            error.raise_if_refused(obj, client.find(resource, key), "uid")

    def _in_order(self) -> Iterator[tuple[Resource, Object]]:
        for resource, obj in self.leftovers.removable:
            if resource == POD:
                yield from self._top_controller(obj)
            yield resource, obj

    def _top_controller(self, pod: Object) -> Iterator[tuple[Resource, Object]]:
        """Yields the topmost controller of a Pod: a StatefulSet, or the controller that owns the StatefulSet."""
        found: tuple[Resource, Object] | None = None
        below = pod
        for _ in range(_MAX_OWNERS):
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
        resource = self.cluster.discovery.resource(reference["apiVersion"], reference["kind"])
        if resource is None or not resource.namespaced:
            return None  # such as a Node, which owns the mirror Pods of its kubelet
        owner = self.cluster.client.find(resource, Key(obj["metadata"]["namespace"], reference["name"]))
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return None
        return resource, owner
