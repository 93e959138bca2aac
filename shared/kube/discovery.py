"""Kinds to paths: what an API server serves, asked for once per server and again only for an unknown kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from .client import Client
from .errors import NotServed, Unavailable
from .places import held
from .resources import Object, Resource, split_api_version

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

_SECONDS = 30.0
"""For all requests of one discovery: an old server takes one for each group that it claims to have."""


class Discovery:
    """The served kinds of one server. Two requests learn everything, one more each kind that came later.

    What is known only saves requests: that a kind is not served is never answered from memory.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = Lock()
        self._loaded = False
        self._known: dict[tuple[str, str], dict[str, Resource]] = {}
        self._stale: set[str] = set()
        """Groups of aggregated API servers that did not answer: what they serve is not known."""

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """The resource that serves `kind` in `api_version`, or None if the server has no such kind (now)."""
        group, version = split_api_version(api_version)
        with self._alone():
            self._load()
            found = self._known.get((group, kind), {}).get(version)
            if found is None:
                self._refresh(self._client, group, version)
                found = self._known.get((group, kind), {}).get(version)
            return found

    def preferred(self, group: str, kind: str) -> Resource | None:
        """The server's preferred version of `kind`, or None if it serves the kind in no version (now).

        Raises `ApiError`, also where the server cannot tell.
        """
        with self._alone():
            asked = not self._loaded
            self._load()
            if not asked and (group, kind) not in self._known:
                self._loaded = False
                self._load()
            served = self._known.get((group, kind), {})
            if not served and group in self._stale:
                raise Unavailable(
                    f"the API server of {group} does not answer: nobody can tell whether it serves {kind}"
                )
            return next(iter(served.values()), None)

    def serving(self, api_version: str, kind: str) -> Resource | None:
        """The resource for objects that were written in `api_version`: any other version serves them as well."""
        group, _ = split_api_version(api_version)
        return self.resource(api_version, kind) or self.preferred(group, kind)

    def served(self) -> Mapping[tuple[str, str], Resource]:
        """Everything known to be served, by (apiVersion, kind), as plain data."""
        with self._alone():
            self._load()
            return {
                (resource.api_version, resource.kind): resource
                for versions in self._known.values()
                for resource in versions.values()
            }

    def forget(self) -> None:
        """Makes the next question ask the server again."""
        with self._alone():
            self._loaded = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Raises `Unavailable` where another thread takes long, or the server answers with something else."""
        with held(self._lock, _SECONDS, Unavailable(f"discovery of {self._client.host} takes too long")):
            try:
                yield
            except (AttributeError, TypeError, KeyError) as error:
                raise Unavailable("discovery: answered with something else: is this an API server?") from error

    def _load(self) -> None:
        if self._loaded:
            return
        client = self._client.within(_SECONDS)
        core = {kind: versions for kind, versions in self._known.items() if not kind[0]}
        self._known = core  # of the server's own version: it stays what it is
        self._stale = set()
        for path in ("/apis",) if core else ("/api", "/apis"):
            answer = client.request("GET", path, accept=_AGGREGATED, subject="discovery")
            if answer.get("kind") == "APIGroupDiscoveryList":
                self._read_aggregated(answer)
            else:  # servers before 1.26 answer with bare group names
                self._read_groups(client, answer)
        self._loaded = True

    def _read_aggregated(self, answer: Object) -> None:
        for group in answer.get("items", []):
            name = group.get("metadata", {}).get("name", "")
            for version in group.get("versions", []):
                if version.get("freshness") == "Stale":
                    self._stale.add(name)
                for entry in version.get("resources", []):
                    kind = entry.get("responseKind", {}).get("kind")
                    if kind:
                        namespaced = entry.get("scope") == "Namespaced"
                        self._learn(Resource(name, version["version"], kind, entry["resource"], namespaced))

    def _read_groups(self, client: Client, answer: Object) -> None:
        for version in answer.get("versions", []):
            self._refresh(client, "", version)
        for group in answer.get("groups", []):
            for entry in group["versions"]:
                self._refresh(client, group["name"], entry["version"])

    def _refresh(self, client: Client, group: str, version: str) -> None:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = client.request("GET", path, subject=f"discovery of {path}")
        except NotServed:
            return
        for entry in answer.get("resources", []):
            if "/" not in entry["name"]:
                self._learn(Resource(group, version, entry["kind"], entry["name"], entry["namespaced"]))

    def _learn(self, resource: Resource) -> None:
        self._known.setdefault((resource.group, resource.kind), {})[resource.version] = resource
