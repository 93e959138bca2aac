"""The ways out of a function: the management cluster, workload clusters and object storage, each set up at first use.

One `Clients` serves a process. What it keeps (connections, discovery) only saves time; nothing depends on it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from .kube import Client, Key, NotFound, Object, Resource, Unauthorized, dig
from .kube.discovery import Discovery

if TYPE_CHECKING:
    from .releases.store import ReleaseStore

_MOST_WORKLOADS = 64

SECRET = Resource("", "v1", "Secret", "secrets")


class Workload:
    """A workload cluster that can be reached: its client and what it serves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.discovery = Discovery(client)


class Clients:
    def __init__(self, management: Client | None = None) -> None:
        self._given = management
        self._lock = Lock()
        self._workloads: OrderedDict[str, Workload] = OrderedDict()

    @cached_property
    def management(self) -> Client:
        from .kube import connect

        return self._given or connect.management()

    @cached_property
    def discovery(self) -> Discovery:
        return Discovery(self.management)

    @cached_property
    def releases(self) -> ReleaseStore:
        from .releases.store import ReleaseStore
        from .storage import ObjectStore

        return ReleaseStore(ObjectStore())

    def workload(self, kubeconfig: bytes) -> Workload:
        """The cluster behind a kubeconfig. Raises `KubeconfigError` for one that cannot be used."""
        from .kube import connect

        digest = hashlib.sha256(kubeconfig).hexdigest()
        with self._lock:
            if digest in self._workloads:
                self._workloads.move_to_end(digest)
                return self._workloads[digest]
        workload = Workload(connect.workload(kubeconfig))
        with self._lock:
            self._workloads[digest] = workload
            while len(self._workloads) > _MOST_WORKLOADS:
                self._workloads.popitem(last=False)[1].client.close()
        return workload

    def forget(self, kubeconfig: bytes) -> None:
        """Drops the connection, after credentials were refused."""
        with self._lock:
            self._workloads.pop(hashlib.sha256(kubeconfig).hexdigest(), None)

    def reference(self, ref: Object, namespace: str) -> Object | None:
        """The object behind a reference of either contract ({apiGroup|apiVersion, kind, name}); None if not there.

        Raises `NotFound` where the kind itself is not served, which is not the same as an absent object.
        """
        group = ref.get("apiGroup") or str(ref.get("apiVersion", "")).rpartition("/")[0]
        resource = self.discovery.preferred(group, ref["kind"])
        if resource is None:
            self.discovery.forget()
            resource = self.discovery.preferred(group, ref["kind"])
        if resource is None:
            raise NotFound(f"{ref['kind']}.{group} is not served: is its CRD installed?", status=404)
        return self.management.find(resource, Key(namespace, ref["name"]))


__all__ = ["SECRET", "Clients", "Key", "Unauthorized", "Workload", "dig"]
