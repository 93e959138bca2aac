"""The clients of a function: management cluster, workload clusters and object storage, each set up at first use.

A process has one `Clients`. Connections and discovery are cached to save time only; correctness does not depend on it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from weakref import WeakValueDictionary

from .api.contract import contract_version, provider_kind
from .api.event_sources import API_SERVER_SOURCE, watched_kinds
from .api.provider import CORE_NAME, PROVIDER_LABEL
from .api.resources import CLUSTER_CLASS, DEPLOYMENT
from .kube import ApiError, Client, Key, NotServed, Object, Resource, dig, key_of
from .kube.crds import find_definition
from .kube.discovery import KIND_BYTES, Discovery
from .kube.loading_rules import KubeconfigError
from .kube.resources import BUILT_IN_GROUPS, conventional_plural, group_of
from .settings import NAMESPACE

if TYPE_CHECKING:
    from .components.bundles import BundleStore
    from .releases.store import ReleaseStore
    from .storage import ObjectStore

log = logging.getLogger("capi-functions")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_WORKLOADS = 512
"""Workload clusters whose discovery is remembered."""
_MAX_BYTES = 64 << 20
"""Maximum bytes of memory of these, by the kinds of their servers and the content of their kubeconfigs."""
_TLS_FACTOR = 12
"""Bytes of memory that the TLS library takes for a byte of a kubeconfig."""
_MAX_INVALID = 1024
_INVALID_SECONDS = 300.0
"""Invalid kubeconfigs that are remembered, and for how long, because what is valid depends on settings, too."""
_MAX_CONNECTED = 32
"""Workload clusters to which connections stay open, those used last: more than a process has threads. A cluster has up
to eight of 32 KiB each, and a process works for a hundred clusters in turn."""

_CONTRACT_SECONDS = 300.0
"""Seconds for which the contract of a kind is remembered."""
_SOURCES_SECONDS = 300.0
"""Seconds for which it is remembered what Knative's event sources watch."""
_CLASS_SECONDS = 300.0
"""Seconds for which it is remembered what a ClusterClass says."""
_CORE_SECONDS = 30.0
"""Seconds for which it is remembered whether a Cluster API core runs."""

NOT_SERVED = "KindNotServed"
NOT_ALLOWED = "ReferenceNotAllowed"


@dataclass(frozen=True)
class LookupResult:
    """The result of a lookup of a referenced object; a decision differs for each `state`.

    Attributes:
        state: `present`: the object was read. `absent`: it does not exist. `failed`: it could not be read, so it is
            unknown whether it exists. `unreferenced`: there is no reference, or it is incomplete.
        kind: The kind of the reference.
        object: The object, if present.
        resource: The resource of the kind, if the kind is served and was requested.
        error: Why the lookup failed.
        contract: The contract of Cluster API that the object follows, if it was requested and the CRD has one.
        reason: The reason for a condition if the lookup failed and a retry alone cannot help.
    """

    state: Literal["present", "absent", "failed", "unreferenced"]
    kind: str = ""
    object: Object | None = None
    resource: Resource | None = None
    error: str = ""
    reason: str = ""
    contract: str = ""


class _Memory(Generic[K, V]):
    """Values that are read again some seconds after they were read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[K, tuple[float, V]] = {}

    def get(self, key: K, read: Callable[[], V]) -> V:
        """Returns the remembered value, else the result of `read`."""
        now = time.monotonic()
        until, value = self._values.get(key) or (now, None)
        if now < until and value is not None:
            return value
        value = read()
        kept = {known: entry for known, entry in self._values.copy().items() if entry[0] > now}
        self._values = {**kept, key: (now + self._seconds, value)}
        return value

    def forget(self, key: K) -> None:
        self._values.pop(key, None)


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
        """The error of each invalid kubeconfig by its digest, and until when it is remembered."""
        self._contracts: _Memory[tuple[str, str], tuple[Resource, str]] = _Memory(_CONTRACT_SECONDS)
        """Version and contract for each group and kind of a provider."""
        self._core: _Memory[None, str] = _Memory(_CORE_SECONDS)
        """The name of the running core's Deployment."""
        self._watched: _Memory[None, frozenset[tuple[str, str]]] = _Memory(_SOURCES_SECONDS)
        """Group and kind of all that Knative's event sources watch."""
        self._gates: _Memory[Key, tuple[Object, ...]] = _Memory(_CLASS_SECONDS)
        """The availability gates of ClusterClasses."""
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
        from .storage import ObjectStore

        kept, store = self._releases or (None, None)
        if store is None or (kept is not None and kept is not ObjectStore.from_env()):
            objects = ObjectStore.from_env()
            store = ReleaseStore(objects)
            self._releases = objects, store
        return store

    @releases.setter
    def releases(self, store: ReleaseStore) -> None:
        """Sets a store that is used whatever the settings are."""
        self._releases = None, store

    @property
    def components(self) -> BundleStore:
        """The store of provider components, renewed like `releases`."""
        from .components.bundles import BundleStore
        from .storage import ObjectStore

        kept, store = self._components or (None, None)
        if store is None or (kept is not None and kept is not ObjectStore.from_env()):
            objects = ObjectStore.from_env()
            store = BundleStore(objects)
            self._components = objects, store
        return store

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
        """Drops the workload clusters used least recently that are too many, or need too much memory together."""
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

    def get_reference(
        self,
        reference: Mapping[str, Any] | None,
        namespace: str,
        *,
        undefined_is_absent: bool = False,
        by_contract: bool = False,
    ) -> LookupResult:
        """Reads the object that a reference in a Cluster API object points to. Never raises. Failures are results.

        Only a 404 for the object means that it is absent. A kind that is not served is a failure. References to
        cluster-scoped objects and to kinds that are built into Kubernetes fail as well, because objects of providers
        are namespaced and of the provider's own kinds.

        Args:
            reference: With apiGroup (v1beta2) or apiVersion (v1beta1), kind and name; None or incomplete if not set.
            namespace: Where the object is.
            undefined_is_absent: Returns `absent` instead of `failed` if no CRD defines the kind, for callers that wait
                for the deletion of the object.
            by_contract: Reads the object in the version that follows the newest contract of its provider, by the labels
                of its CRD. By default it is read in the API server's preferred version.
        """
        if not reference or not reference.get("kind") or not reference.get("name"):
            return LookupResult("unreferenced")
        kind, name = reference["kind"], reference["name"]
        group = group_of(reference)
        if group in BUILT_IN_GROUPS:
            kind_of_group = f"{kind} of {group or 'the core group'}"
            refusal = f"a reference to a {kind_of_group} is not allowed: the kind is built into Kubernetes"
            return LookupResult("failed", kind=kind, error=refusal, reason=NOT_ALLOWED)
        try:
            resource = self.discovery.preferred(group, kind)
            if resource is not None and not resource.namespaced:
                refusal = f"a reference to a {kind} is not allowed: the kind is cluster-scoped"
                return LookupResult("failed", kind=kind, error=refusal, reason=NOT_ALLOWED)
            if resource is not None and by_contract:
                resource, contract = self._by_contract(resource)
                return replace(self._get(resource, Key(namespace, name)), contract=contract)
            if resource is not None:
                return self._get(resource, Key(namespace, name))
            defined = Resource(group, "", kind, conventional_plural(kind))
            if undefined_is_absent and find_definition(self.management, defined) is None:
                return LookupResult("absent", kind=kind)
        except ApiError as error:
            return LookupResult("failed", kind=kind, error=str(error))
        problem = f"{kind}.{group} is not served: is its CRD installed?"
        return LookupResult("failed", kind=kind, error=problem, reason=NOT_SERVED)

    def running_core(self) -> str:
        """Returns the name of the Deployment of a running Cluster API core; empty if none runs or reading is denied."""
        return self._core.get(None, lambda: find_running_core(self.management))

    def is_watched(self, resource: Resource) -> bool:
        """Returns whether changes of a kind start functions; True where Knative's event sources are not installed.

        Where they cannot be read, the answer is True as well.
        """
        source = API_SERVER_SOURCE
        if self.discovery.known(source.group, source.kind) is None:
            return True
        watched = self._watched.get(None, lambda: _watched_kinds(self.management))
        return not watched or (resource.group, resource.kind) in watched

    def class_gates(self, key: Key) -> tuple[Object, ...]:
        """Returns the availability gates of a ClusterClass; none if it does not exist. Raises `ApiError`.

        They are remembered for a while, since a class may be large.
        """
        return self._gates.get(key, lambda: _gates_of(self.management, key))

    def _by_contract(self, resource: Resource) -> tuple[Resource, str]:
        """Returns the kind in the version of its contract, and the contract; without a contract the kind as it is.

        Both are remembered together for a while, so that most lookups read no CRD.
        """

        def read() -> tuple[Resource, str]:
            crd = find_definition(self.management, resource) or {}
            labelled = contract_version(dig(crd, "metadata.labels", {}))
            return provider_kind(crd) or resource, labelled[0] if labelled else ""

        return self._contracts.get((resource.group, resource.kind), read)

    def _get(self, resource: Resource, key: Key) -> LookupResult:
        try:
            found = self.management.find(resource, key)
        except NotServed:
            # The cache is stale, because this version is no longer served.
            self.discovery.invalidate()
            self._contracts.forget((resource.group, resource.kind))
            raise
        if found is None:
            return LookupResult("absent", kind=resource.kind, resource=resource)
        return LookupResult("present", kind=resource.kind, object=found, resource=resource)


def _watched_kinds(management: Client) -> frozenset[tuple[str, str]]:
    try:
        return watched_kinds(management.list(API_SERVER_SOURCE, NAMESPACE))
    except ApiError as error:
        log.warning("the event sources cannot be read: %s", error)
        return frozenset()


def _gates_of(management: Client, key: Key) -> tuple[Object, ...]:
    try:
        found = management.find(CLUSTER_CLASS, key)
    except NotServed:
        return ()
    return tuple(dig(found, "spec.availabilityGates") or ())


def find_running_core(management: Client) -> str:
    """Returns the name of the Deployment of a running Cluster API core; empty if none runs or reading is denied."""
    try:
        everywhere = management.limited_to(())
        for deployment in everywhere.list(DEPLOYMENT, selector=f"{PROVIDER_LABEL}={CORE_NAME}"):
            if dig(deployment, "status.availableReplicas", 0) > 0:
                return str(key_of(deployment))
    except ApiError as error:
        if error.status != 403:
            raise
    return ""
