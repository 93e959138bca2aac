"""Namespaces that are being deleted come to an end: a local run has no controllers that would see to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from infra import local_control_plane
from shared.kube import ApiError, Client, Object, Resource, connect, deleting, key_of
from shared.kube.connect import KubeconfigError
from shared.kube.discovery import Discovery

NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
_UNLISTABLE = (404, 405)  # a kind that has just gone, or that is only ever created, such as an access review


class Namespaces:
    """Looks at these planes, as far as they run, every so many seconds between `start` and `stop`."""

    def __init__(self, planes: Callable[[], Iterable[Path]], every: float = 1.0) -> None:
        self._planes = planes
        self._every = every
        self._clients: dict[Path, Client] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="namespaces", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            planes = list(self._planes())
            for plane in planes:
                try:
                    self._look_at(plane)
                except (ApiError, KubeconfigError, OSError):
                    self._forget(plane)  # it may be on its way out; if not, there is another look
            self._forget(*(self._clients.keys() - planes))
        self._forget(*list(self._clients))

    def _look_at(self, plane: Path) -> None:
        if local_control_plane.status(plane).phase != "ready":
            self._forget(plane)
            return
        if plane not in self._clients:
            self._clients[plane] = connect.from_kubeconfig(str(local_control_plane.kubeconfig(plane)))
        for namespace in leaving(self._clients[plane]):
            finish(self._clients[plane], namespace)

    def _forget(self, *planes: Path) -> None:
        for plane in planes:
            if client := self._clients.pop(plane, None):
                client.close()


def leaving(client: Client) -> list[Object]:
    """The namespaces that are being deleted."""
    query = {"fieldSelector": "status.phase=Terminating"}
    return list(client.request("GET", NAMESPACE.path(), query=query, subject="Namespace list").get("items") or [])


def finish(client: Client, namespace: Object) -> bool:
    """Deletes all that is in a namespace, and lets it go if nothing is left; whether it did. Raises `ApiError`."""
    name = namespace["metadata"]["name"]
    for resource, obj in _inside(client, name):
        if not deleting(obj):
            client.delete(resource, key_of(obj))
    if any(True for _ in _inside(client, name)):
        return False  # something has a finalizer
    free = {**namespace, "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}}
    client.request("PUT", NAMESPACE.path("", name, "finalize"), body=free, subject=f"Namespace {name}")
    return True


def _inside(client: Client, namespace: str) -> Iterator[tuple[Resource, Object]]:
    kinds = {(one.group, one.kind): one for one in Discovery(client).served().values() if one.namespaced}
    for resource in kinds.values():
        try:
            for obj in client.list(resource, namespace):
                yield resource, obj
        except ApiError as error:
            if error.status not in _UNLISTABLE:
                raise
