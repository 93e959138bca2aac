"""Resolves the source of a release: from the ClusterStack in the namespace, else from the settings.

The author of a ClusterStack decides what its sources contain. So releases of such sources are stored in a scope of
their own, and cannot replace the releases of others. The scope belongs to a namespace, as do the credentials of the
source.
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
from shared.download.access import Access, from_secret, hosts_of, is_allowed, not_sent, without_default_port
from shared.kube import ApiError, Client, Key, NotServed, Unavailable, dig, key_of
from shared.kube.crds import find_definition
from shared.kube.list_cache import ListCache
from shared.redaction import redact_url
from shared.settings import RELEASE_SOURCES, SETTINGS

from .naming import STABLE, ReleaseName
from .sources import Source
from .sources.urls import SourceChain, from_env, from_url, server, servers_in_settings

COMMON_SCOPE = ""
"""The scope of releases from the sources that the settings name."""

ANY_NAMESPACE = "*"
"""In `spec.allowedNamespaces`: any namespace."""

_STACKS = ListCache()


class HasManagement(Protocol):
    """The part of `shared.clients.Clients` that this module needs."""

    @property
    def management(self) -> Client:
        """The client of the management cluster."""
        ...


@dataclass(frozen=True, slots=True)
class ScopedSource:
    """A source, and the scope of storage for its releases (see `ReleaseStore.in_scope`).

    `source` reads its Secret with its first request, and only then fails if the Secret or the URL is unusable.
    `namespace` is the namespace of the ClusterStack, if it has sources of its own; `allowed` are the other namespaces
    whose Clusters may have its releases.
    """

    scope: str
    source: Source
    namespace: str = ""
    allowed: frozenset[str] = frozenset()

    def allows(self, namespace: str) -> bool:
        """Returns whether Clusters in this namespace may use the releases; the common scope is for all."""
        return (
            self.scope == COMMON_SCOPE or namespace == self.namespace or bool(self.allowed & {namespace, ANY_NAMESPACE})
        )


@dataclass(frozen=True, slots=True)
class ReleaseNotShared:
    """Release `tag` is from a source of `namespace` that Clusters of namespace `requester` must not use."""

    tag: str
    namespace: str
    requester: str

    @property
    def message(self) -> str:
        """The message for conditions, with the remedy."""
        return (
            f"release {self.tag} is private to namespace {self.namespace}: list {self.requester} in "
            "spec.allowedNamespaces of the ClusterStack there, or use a class of another namespace"
        )


def resolve_source(clients: HasManagement, namespace: str, name: ReleaseName, *, since: str = "") -> ScopedSource:
    """Resolves the source of a release requested in a namespace; lists ClusterStacks at most once.

    Args:
        clients: The client of the management cluster.
        namespace: The namespace of the ClusterClass; if empty, the source comes from the settings.
        name: The release.
        since: The resourceVersion of the requesting object. A list of ClusterStacks from memory is used if it is at
            least as new.

    Raises:
        ApiError: The ClusterStacks cannot be listed.
    """
    if not namespace:
        return source_of_stack(clients, {})
    try:
        listed = _STACKS.list(clients.management, CLUSTER_STACK, namespace, since=since)
    except NotServed:
        if find_definition(clients.management, CLUSTER_STACK) is not None:
            raise  # a ClusterStack with sources of its own may exist
        listed = ()
    stacks = [stack for stack in listed if _publishes(stack, name)]
    # The oldest ClusterStack of the channel comes first, because a newer one must not take over the releases of an
    # older one.
    stacks.sort(
        key=lambda stack: (_other_channel(stack, name), dig(stack, "metadata.creationTimestamp", ""), key_of(stack))
    )
    return source_of_stack(clients, stacks[0] if stacks else {})


def source_of_stack(clients: HasManagement, stack: Mapping[str, Any]) -> ScopedSource:
    """Returns the source of a ClusterStack's releases; reads nothing and raises nothing."""
    places, namespace = _places(stack), key_of(stack).namespace
    if not places:
        return ScopedSource(COMMON_SCOPE, _LazySource(from_env))
    sources = tuple(_LazySource(partial(_connect, clients, namespace, place)) for place in places)
    allowed = dig(stack, "spec.allowedNamespaces")
    names = frozenset(name for name in allowed if isinstance(name, str)) if isinstance(allowed, list) else frozenset()
    return ScopedSource(scope_of(stack), sources[0] if len(sources) == 1 else SourceChain(sources), namespace, names)


def scope_of(stack: Mapping[str, Any]) -> str:
    """Returns the scope of a ClusterStack's releases: a hash of its namespace, source URLs and Secret names."""
    places = _places(stack)
    if not places:
        return COMMON_SCOPE
    identity = json.dumps([key_of(stack).namespace, *places])
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _LazySource:
    """Creates the source at each request."""

    connect: Callable[[], Source]

    def fetch(self, tag: str) -> Iterator[File]:
        yield from self.connect().fetch(tag)

    def list(self) -> Sequence[str]:
        return self.connect().list()


def _places(stack: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns URL and Secret name, or "", of each of a ClusterStack's sources."""
    listed = dig(stack, "spec.sources")
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return [(str(entry.get("url") or ""), str(dig(entry, "secretRef.name", ""))) for entry in entries]


def _connect(clients: HasManagement, namespace: str, place: tuple[str, str]) -> Source:
    url, secret = place
    _require_allowed(url)
    return from_url(url, _access(clients, Key(namespace, secret), url) if secret else None, local=False)


def _require_allowed(url: str) -> None:
    """Raises `SourceError` for a URL that the installation does not allow in objects of users."""
    if not is_allowed(url, SETTINGS.get("RELEASE_ALLOWED_SOURCES", "")):
        raise SourceError(
            f"release source {redact_url(url)[:200]} is refused because RELEASE_ALLOWED_SOURCES does not list it "
            f"({RELEASE_SOURCES.where})",
            transient=False,
        )


def _access(clients: HasManagement, key: Key, url: str) -> Access:
    """Returns the access in a Secret, for the hosts that it names, else for the hosts of the settings' sources.

    The author of a ClusterStack may lack the right to read the Secret, and so must not choose its receiver.
    """
    try:
        secret = clients.management.find(SECRET, key)
    except ApiError as error:
        raise SourceError(f"Secret {key} cannot be read: {error}", transient=isinstance(error, Unavailable)) from error
    if secret is None:
        raise SourceError(f"Secret {key}, which spec.sources names, does not exist", transient=False)
    access = from_secret(secret)
    if access.endpoint:
        _require_allowed(access.endpoint)
    hosts, host = hosts_of(secret), without_default_port(server(url))
    if access.sends_secrets and host and host not in (servers_in_settings() if hosts is None else hosts):
        from_url(url, local=False)  # an unusable URL is the first thing to correct
        raise SourceError(not_sent(f"Secret {key}", host), transient=False)
    return access


def _publishes(stack: Mapping[str, Any], name: ReleaseName) -> bool:
    """Returns whether the release has the ClusterStack's provider, name and Kubernetes version."""
    found = [dig(stack, f"spec.{field}") for field in ("provider", "name", "kubernetesVersion")]
    return found == [name.provider, name.name, name.kubernetes]


def _other_channel(stack: Mapping[str, Any], name: ReleaseName) -> bool:
    """Returns whether exactly one of the ClusterStack and the release is in the stable channel."""
    stable = dig(stack, "spec.channel", STABLE) == STABLE
    return stable is not (name.version.channel == STABLE)
