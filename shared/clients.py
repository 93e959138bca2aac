"""The clients of a function: management cluster, workload clusters and object storage, each set up at first use.

A process has one `Clients`. Connections and discovery are cached to save time only; correctness does not depend on it.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from .kube import Client
from .kube.discovery import KIND_BYTES, Discovery
from .kube.loading_rules import KubeconfigError
from .ttl_cache import TTLCache

if TYPE_CHECKING:
    from .components.bundles import BundleStore
    from .releases.store import ReleaseStore
    from .storage import ObjectStore

S = TypeVar("S")

_MAX_WORKLOADS = 512
"""Workload clusters whose discovery is cached."""
_MAX_BYTES = 64 << 20
"""The maximum memory of these clusters in bytes, estimated from their kinds and kubeconfigs."""
_TLS_FACTOR = 12
"""Bytes of memory that the TLS library takes for a byte of a kubeconfig."""
_MAX_INVALID = 1024
_INVALID_SECONDS = 300.0
"""The number of cached invalid kubeconfigs, and the seconds, because validity also depends on settings."""
_MAX_CONNECTED = 32
"""The number of workload clusters with open connections, the latest used; more than a process has threads. A cluster
has up to eight connections of 32 KiB each, and a process works for a hundred clusters in turn."""


class ClusterClients:
    """The clients of one cluster, workload or management: requests and discovery.

    `size` is about how many bytes of memory the client takes.
    """

    def __init__(self, client: Client, discovery: Discovery | None = None, size: int = 0) -> None:
        self.client = client
        self.size = size
        self.discovery = discovery or Discovery(client)

    def within(self, seconds: float) -> ClusterClients:
        """Returns clients of the same cluster whose requests all end within `seconds` from now."""
        view = copy.copy(self)
        view.client = self.client.within(seconds)
        return view


class Clients:
    """The clients that a function gets for each event.

    Args:
        management: The client of the management cluster. By default it is made from the environment: a kubeconfig, or
            the service account of the pod.
    """

    def __init__(self, management: Client | None = None) -> None:
        self._given = management
        self._lock = Lock()
        self._workloads: OrderedDict[str, ClusterClients] = OrderedDict()
        self._connected: OrderedDict[str, ClusterClients] = OrderedDict()
        self._invalid: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """The error of each invalid kubeconfig by its digest, and its expiry."""
        self.remembered = TTLCache()
        """Facts about the management cluster that many decisions depend on and that rarely change."""
        self._shared: WeakValueDictionary[str, Discovery] = WeakValueDictionary()
        """The discovery of each server, for kubeconfigs of one user that differ in other things."""
        self._releases: tuple[ObjectStore | None, ReleaseStore] | None = None
        self._components: tuple[ObjectStore | None, BundleStore] | None = None

    @cached_property
    def management(self) -> Client:
        """The client of the management cluster. Raises `KubeconfigError` if none can be made."""
        from .kube import connect

        return self._given or connect.management()

    @cached_property
    def discovery(self) -> Discovery:
        """The kinds that the management cluster serves."""
        return Discovery(self.management)

    @property
    def releases(self) -> ReleaseStore:
        """The store of release assets. The store and its cache are renewed when the storage settings change."""
        from .releases.store import ReleaseStore

        self._releases = _renewed(self._releases, ReleaseStore)
        return self._releases[1]

    @releases.setter
    def releases(self, store: ReleaseStore) -> None:
        """Sets a store that overrides the settings."""
        self._releases = None, store

    @property
    def components(self) -> BundleStore:
        """The store of provider components, renewed like `releases`."""
        from .components.bundles import BundleStore

        self._components = _renewed(self._components, BundleStore)
        return self._components[1]

    @components.setter
    def components(self, store: BundleStore) -> None:
        self._components = None, store

    def workload(self, kubeconfig: bytes) -> ClusterClients:
        """Returns the clients of the cluster in a kubeconfig, cached. Raises `KubeconfigError` for an invalid one."""
        from .kube import connect

        digest = hashlib.sha256(kubeconfig).hexdigest()
        with self._lock:
            workload = self._workloads.get(digest)
            until, problem = self._invalid.get(digest, (0.0, ""))
        if time.monotonic() < until:
            raise KubeconfigError(problem)
        if workload is None:
            try:
                client = connect.workload(kubeconfig)
            except KubeconfigError as error:
                self._remember_invalid(digest, str(error))
                raise
            with self._lock:
                workload = ClusterClients(client, self._shared.get(client.identity), _TLS_FACTOR * len(kubeconfig))
                if client.identity:
                    self._shared[client.identity] = workload.discovery
        with self._lock:
            self._workloads[digest] = self._connected[digest] = workload
            self._workloads.move_to_end(digest)
            self._connected.move_to_end(digest)
            self._evict()
            if len(self._connected) > _MAX_CONNECTED:
                self._connected.popitem(last=False)[1].client.close()
        return workload

    def _remember_invalid(self, digest: str, problem: str) -> None:
        with self._lock:
            self._invalid[digest] = time.monotonic() + _INVALID_SECONDS, problem
            self._invalid.move_to_end(digest)
            if len(self._invalid) > _MAX_INVALID:
                self._invalid.popitem(last=False)

    def _evict(self) -> None:
        """Drops the least recently used workload clusters while there are too many, or they need too much memory."""
        size, kinds = 0, dict[int, int]()
        for number, (digest, one) in enumerate(reversed(list(self._workloads.items()))):
            known = one.discovery.known_kinds
            kinds[id(known)] = KIND_BYTES * len(known)
            size += one.size
            if number and (number >= _MAX_WORKLOADS or size + sum(kinds.values()) > _MAX_BYTES):
                del self._workloads[digest]
                if connected := self._connected.pop(digest, None):
                    connected.client.close()

    def forget(self, kubeconfig: bytes) -> None:
        """Drops the cached clients of a kubeconfig, after its credentials were rejected."""
        digest = hashlib.sha256(kubeconfig).hexdigest()
        with self._lock:
            self._workloads.pop(digest, None)
            self._connected.pop(digest, None)


def _renewed(
    present: tuple[ObjectStore | None, S] | None, make: Callable[[ObjectStore], S]
) -> tuple[ObjectStore | None, S]:
    """Returns a store with the object store below it; a new one if the settings name another object store."""
    from .storage import ObjectStore

    if present is not None and present[0] is None:
        return present
    objects = ObjectStore.from_env()
    return present if present is not None and present[0] is objects else (objects, make(objects))
