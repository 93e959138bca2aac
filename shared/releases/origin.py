"""Where the releases of a stack come from: its ClusterStack's own sources, else those of the environment.

Whoever writes a ClusterStack decides what its sources hand out. So their releases are kept in a scope of their own,
where they replace nobody else's; and since a source may answer only to certain credentials, which are those of a
namespace, the scope is one of the namespace.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from shared.api.resources import CLUSTER_STACK, SECRET
from shared.download import File, SourceError
from shared.download.access import Access, from_secret
from shared.kube import ApiError, Client, Key, NotServed, Unavailable, dig, key_of
from shared.kube.crds import find_definition
from shared.kube.list_cache import ListCache

from .naming import STABLE, ReleaseName
from .sources import Source
from .sources.several import Several
from .sources.urls import from_env, from_url

ENVIRONMENT = ""
"""The scope of the environment's sources."""

EVERYBODY = "*"
"""In `spec.allowedNamespaces`: any namespace."""

_STACKS = ListCache()


class Clients(Protocol):
    """As much of `shared.clients.Clients` as is used here."""

    @property
    def management(self) -> Client: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """`scope` is where the releases are kept (see `ReleaseStore.within`).

    `source` is set up when it is asked: only then its Secret is read, and only then it can turn out to be unusable.
    `namespace` is where the ClusterStack is, if it has sources of its own; `allowed` are the other namespaces whose
    Clusters it lets have its releases.
    """

    scope: str
    source: Source
    namespace: str = ""
    allowed: frozenset[str] = frozenset()

    def is_open_to(self, namespace: str) -> bool:
        """Whether Clusters in this namespace may have its releases; those of the environment's sources all may."""
        return self.scope == ENVIRONMENT or namespace == self.namespace or bool(self.allowed & {namespace, EVERYBODY})


@dataclass(frozen=True, slots=True)
class NotShared:
    """A release of another namespace's own sources, which are not open to the one that asks."""

    tag: str
    namespace: str
    asker: str

    @property
    def message(self) -> str:
        return (
            f"release {self.tag} is private to namespace {self.namespace}: list {self.asker} in spec.allowedNamespaces "
            "of the ClusterStack there, or use a class of another namespace"
        )


def of_release(clients: Clients, namespace: str, name: ReleaseName, *, since: str = "") -> Origin:
    """Whence a release comes that is asked for in a namespace. One list of ClusterStacks; raises `ApiError`.

    In no namespace ("") it comes from the environment's sources. `since` is the resourceVersion of who asks: where a
    ClusterStack changed after it, what it said a moment ago may still count, which saves the list.
    """
    if not namespace:
        return of_stack(clients, {})
    try:
        listed = _STACKS.list(clients.management, CLUSTER_STACK, namespace, since=since)
    except NotServed:
        if find_definition(clients.management, CLUSTER_STACK) is not None:
            raise  # there may be one with sources of its own
        listed = ()
    stacks = [stack for stack in listed if _is_of(stack, name)]
    # Of several, the one that was there first: a later one takes over no releases. But each has its own channel.
    stacks.sort(
        key=lambda stack: (_other_channel(stack, name), dig(stack, "metadata.creationTimestamp", ""), key_of(stack))
    )
    return of_stack(clients, stacks[0] if stacks else {})


def of_stack(clients: Clients, stack: Mapping[str, Any]) -> Origin:
    """Whence a ClusterStack's releases come. Reads nothing, raises nothing."""
    places, namespace = _places(stack), key_of(stack).namespace
    if not places:
        return Origin(ENVIRONMENT, _Deferred(from_env))
    sources = tuple(_Deferred(partial(_connect, clients, namespace, place)) for place in places)
    allowed = dig(stack, "spec.allowedNamespaces")
    names = frozenset(name for name in allowed if isinstance(name, str)) if isinstance(allowed, list) else frozenset()
    return Origin(scope_of(stack), sources[0] if len(sources) == 1 else Several(sources), namespace, names)


def scope_of(stack: Mapping[str, Any]) -> str:
    """The scope of a ClusterStack's releases: of its namespace, the URLs and the names of the Secrets."""
    places = _places(stack)
    if not places:
        return ENVIRONMENT
    identity = json.dumps([key_of(stack).namespace, *places])
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Deferred:
    connect: Callable[[], Source]

    def fetch(self, tag: str) -> Iterator[File]:
        yield from self.connect().fetch(tag)

    def list(self) -> Sequence[str]:
        return self.connect().list()


def _places(stack: Mapping[str, Any]) -> list[tuple[str, str]]:
    """URL and name of the Secret, or "", of each source."""
    listed = dig(stack, "spec.sources")
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return [(str(entry.get("url") or ""), str(dig(entry, "secretRef.name", ""))) for entry in entries]


def _connect(clients: Clients, namespace: str, place: tuple[str, str]) -> Source:
    url, secret = place
    return from_url(url, _access(clients, Key(namespace, secret)) if secret else None, local=False)


def _access(clients: Clients, key: Key) -> Access:
    try:
        secret = clients.management.find(SECRET, key)
    except ApiError as error:
        raise SourceError(f"Secret {key} cannot be read: {error}", transient=isinstance(error, Unavailable)) from error
    if secret is None:
        raise SourceError(f"Secret {key}, which spec.sources names, does not exist", transient=False)
    return from_secret(secret)


def _is_of(stack: Mapping[str, Any], name: ReleaseName) -> bool:
    told = [dig(stack, f"spec.{field}") for field in ("provider", "name", "kubernetesVersion")]
    return told == [name.provider, name.name, name.kubernetes]


def _other_channel(stack: Mapping[str, Any], name: ReleaseName) -> bool:
    stable = dig(stack, "spec.channel", STABLE) == STABLE
    return stable is not (name.version.channel == STABLE)
