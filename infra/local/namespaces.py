"""Finalizes namespaces that are being deleted, because a local run has no kube-controller-manager."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from infra import local_control_plane
from shared.api.resources import NAMESPACE
from shared.kube import ApiError, Client, Object, Resource, connect, deleting, key_of
from shared.kube.connect import KubeconfigError
from shared.kube.discovery import Discovery

_UNLISTABLE = (404, 405)  # a kind that was just removed, or that can only be created, such as an access review


class Namespaces:
    """Checks control planes for terminating namespaces every `every` seconds, between `start` and `stop`.

    `planes` returns the directories of the control planes; those that do not run are skipped.
    """

    def __init__(self, planes: Callable[[], Iterable[Path]], every: float = 1.0) -> None:
        self._planes = planes
        self._every = every
        self._clients: dict[Path, Client] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="namespaces", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and waits for its end."""
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            planes = list(self._planes())
            for plane in planes:
                try:
                    self._check(plane)
                except (ApiError, KubeconfigError, OSError):
                    self._forget(plane)  # the plane may be ending; otherwise it is checked again
            self._forget(*(self._clients.keys() - planes))
        self._forget(*list(self._clients))

    def _check(self, plane: Path) -> None:
        if local_control_plane.status(plane).phase != "ready":
            self._forget(plane)
            return
        if plane not in self._clients:
            self._clients[plane] = connect.from_kubeconfig(str(local_control_plane.kubeconfig(plane)))
        for namespace in terminating(self._clients[plane]):
            finalize(self._clients[plane], namespace)

    def _forget(self, *planes: Path) -> None:
        for plane in planes:
            if client := self._clients.pop(plane, None):
                client.close()


def terminating(client: Client) -> list[Object]:
    """Returns the namespaces that are being deleted. Raises `ApiError`."""
    query = {"fieldSelector": "status.phase=Terminating"}
    return list(client.request("GET", NAMESPACE.path(), query=query, subject="Namespace list").get("items") or [])


def finalize(client: Client, namespace: Object) -> bool:
    """Deletes all objects in a namespace, and removes its finalizer if no object is left. Returns whether none is left.

    Raises `ApiError`.
    """
    name = namespace["metadata"]["name"]
    for resource, obj in _objects_in(client, name):
        if not deleting(obj):
            client.delete(resource, key_of(obj))
    if any(True for _ in _objects_in(client, name)):
        return False  # an object has a finalizer
    finalized = {**namespace, "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}}
    client.request("PUT", NAMESPACE.path("", name, "finalize"), body=finalized, subject=f"Namespace {name}")
    return True


def _objects_in(client: Client, namespace: str) -> Iterator[tuple[Resource, Object]]:
    kinds = {(one.group, one.kind): one for one in Discovery(client).served().values() if one.namespaced}
    for resource in kinds.values():
        try:
            for obj in client.list(resource, namespace):
                yield resource, obj
        except ApiError as error:
            if error.status not in _UNLISTABLE:
                raise
