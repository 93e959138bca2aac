"""Discovery: maps kinds to the resources that an API server serves, cached until an unknown kind is requested.

Servers that serve the same kinds share one map in memory: a process knows hundreds of clusters, most of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from weakref import WeakValueDictionary

from ..locks import acquired
from .client import Client
from .errors import NotServed, Unavailable
from .resources import Object, Resource, split_api_version
from .responses import understood

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

_MAX_KINDS, _MAX_NAME = 10_000, 253
"""The maximum number of kinds in all versions, and of characters of a name. A kind takes 1.5 KiB of memory, and an
untrusted server may name any number; thousands of CRDs stay below the limit."""
KIND_BYTES = 1536
"""Bytes of memory that a kind takes."""
_SECONDS = 30.0
"""Time limit for all requests of one discovery: a server before 1.26 needs one request for each group version."""
_PROBE_SECONDS = 5.0
"""Time limit for the first request of a probe."""
_ANSWERED_SECONDS = 5.0
"""Seconds after an answer in which no probe is needed. If the server stops meanwhile, the next request fails."""


@dataclass(frozen=True)
class _Kinds:
    """The kinds that a server serves.

    `resources` are in the order of the server; `versions` has them by group and kind, `served` by apiVersion and kind.
    """

    resources: tuple[Resource, ...] = ()
    versions: Mapping[tuple[str, str], Mapping[str, Resource]] = field(default_factory=dict)
    served: Mapping[tuple[str, str], Resource] = field(default_factory=dict)


_SHARED: WeakValueDictionary[tuple[Resource, ...], _Kinds] = WeakValueDictionary()
"""The maps in use, by resources. Entries that no server needs are dropped, because hostile ones take 15 MiB each."""


def _kinds(resources: tuple[Resource, ...]) -> _Kinds:
    """Returns the same maps for the same resources. The last resource for a version of a kind counts."""
    if known := _SHARED.get(resources):
        return known
    versions: dict[tuple[str, str], dict[str, Resource]] = {}
    for resource in resources:
        versions.setdefault((resource.group, resource.kind), {})[resource.version] = resource
    unique = tuple(resource for each in versions.values() for resource in each.values())
    made = _Kinds(unique, versions, {(resource.api_version, resource.kind): resource for resource in unique})
    return _SHARED.setdefault(resources, made)


class Discovery:
    """The kinds that one server serves. Safe to share between threads.

    Two requests load all kinds, and one more request loads each kind that is added later. Only positive results come
    from the cache; a missing kind is always verified with the server.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = Lock()
        self._loaded = False
        self._answered_at = 0.0
        self._known = _Kinds()
        self._stale: set[str] = set()
        """Groups of aggregated API servers that did not answer: their kinds are unknown."""

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """Returns the resource that serves `kind` in `api_version`, or None if the server does not serve it now."""
        group, version = split_api_version(api_version)
        with self._locked():
            self._load()
            found = self._known.versions.get((group, kind), {}).get(version)
            if found is None:
                self._add(self._read_version(self._client, group, version))
                found = self._known.versions.get((group, kind), {}).get(version)
            return found

    def preferred(self, group: str, kind: str) -> Resource | None:
        """Returns `kind` in the server's preferred version, or None if the server serves it in no version now.

        Raises `ApiError`, even if the aggregated API server of the group does not answer.
        """
        with self._locked():
            fresh = not self._loaded
            self._load()
            if not fresh and (group, kind) not in self._known.versions:
                self._loaded = False
                self._load()
            served = self._known.versions.get((group, kind), {})
            if not served and group in self._stale:
                raise Unavailable(f"cannot determine whether {group} serves {kind}: its API server does not answer")
            return next(iter(served.values()), None)

    def known(self, group: str, kind: str) -> Resource | None:
        """Returns `kind` from the last load of all kinds; None does not prove that the kind is not served now."""
        with self._locked():
            self._load()
            return next(iter(self._known.versions.get((group, kind), {}).values()), None)

    def in_any_version(self, api_version: str, kind: str) -> Resource | None:
        """Returns the resource of `kind` in `api_version`, or else in the preferred version of its group."""
        group, _ = split_api_version(api_version)
        return self.resource(api_version, kind) or self.preferred(group, kind)

    def probe(self, client: Client) -> None:
        """Verifies that the server answers and accepts the credentials, unless it has just done so.

        `client` has the server and the user of this discovery. Raises `ApiError`.
        """
        if not self._loaded:
            with self._locked():
                self._load(probe=True)
        elif time.monotonic() - self._answered_at > _ANSWERED_SECONDS:
            client.text("/readyz")
            self._answered_at = time.monotonic()

    def served(self) -> Mapping[tuple[str, str], Resource]:
        """Returns all known resources by (apiVersion, kind)."""
        with self._locked():
            self._load()
            return self._known.served

    @property
    def known_kinds(self) -> tuple[Resource, ...]:
        """The kinds that were read so far; servers that serve the same kinds share this tuple."""
        return self._known.resources

    def invalidate(self) -> None:
        """Makes the next call load the kinds from the server again."""
        with self._locked():
            self._loaded = False

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Raises `Unavailable` if another thread holds the lock for long, or a response has an unexpected shape."""
        late = Unavailable(f"discovery of {self._client.host} takes too long")
        with acquired(self._lock, _SECONDS, late), understood("discovery"):
            yield

    def _load(self, *, probe: bool = False) -> None:
        """Loads all kinds, unless they are loaded; with `probe` the first request is short and not repeated."""
        if self._loaded:
            return
        client = self._client.within(_SECONDS)
        # The core group only changes with the server's version.
        self._known = _kinds(tuple(resource for resource in self._known.resources if not resource.group))
        self._stale = set()
        limited = client.within(_PROBE_SECONDS).once() if probe else client
        for path in ("/apis",) if self._known.resources else ("/api", "/apis"):
            answer = limited.request("GET", path, accept=_AGGREGATED, subject="discovery")
            limited = client  # the server has answered
            if answer.get("kind") == "APIGroupDiscoveryList":
                self._add(self._read_aggregated(answer))
            else:  # servers before 1.26 answer with bare group names
                self._add(self._read_groups(client, answer))
        self._loaded, self._answered_at = True, time.monotonic()

    def _read_aggregated(self, answer: Object) -> Iterator[Resource]:
        for group in answer.get("items", []):
            name = group.get("metadata", {}).get("name", "")
            for version in group.get("versions", []):
                if version.get("freshness") == "Stale":
                    self._stale.add(name)
                for entry in version.get("resources", []):
                    kind = entry.get("responseKind", {}).get("kind")
                    if kind:
                        namespaced = entry.get("scope") == "Namespaced"
                        yield Resource(name, version["version"], kind, entry["resource"], namespaced)

    def _read_groups(self, client: Client, answer: Object) -> Iterator[Resource]:
        for version in answer.get("versions", []):
            yield from self._read_version(client, "", version)
        for group in answer.get("groups", []):
            for entry in group["versions"]:
                yield from self._read_version(client, group["name"], entry["version"])

    def _read_version(self, client: Client, group: str, version: str) -> Iterator[Resource]:
        """Yields the resources of one group version; none if it is not served."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = client.request("GET", path, subject=f"discovery of {path}")
        except NotServed:
            return
        for entry in answer.get("resources", []):
            if "/" not in entry["name"]:
                yield Resource(group, version, entry["kind"], entry["name"], entry["namespaced"])

    def _add(self, resources: Iterable[Resource]) -> None:
        known = (*self._known.resources, *islice(resources, _MAX_KINDS + 1))
        if len(known) > _MAX_KINDS or any(len(name) > _MAX_NAME for one in known for name in _names(one)):
            raise Unavailable(f"discovery: more than {_MAX_KINDS} kinds, or a name of more than {_MAX_NAME} characters")
        self._known = _kinds(known)


def _names(resource: Resource) -> tuple[str, str, str, str]:
    return resource.group, resource.version, resource.kind, resource.plural
