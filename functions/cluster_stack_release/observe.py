"""Reads the inputs of a decision about one ClusterStackRelease, up to the first prerequisite that is missing."""

from __future__ import annotations

from dataclasses import dataclass

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.connection import ClusterConnection, connect_management
from shared.clients import Clients
from shared.kube import Key, NotServed, Object, deleting, dig, key_of
from shared.kube.crds import list_defined
from shared.manifests import Identity
from shared.references import NOT_ALLOWED, LookupResult, get_reference
from shared.releases.missing_assets import MissingAssets, read_release
from shared.releases.naming import ReleaseName, is_provider_release
from shared.releases.release import Release
from shared.releases.source_resolution import resolve_source
from shared.releases.usage import Users, users_by_release
from shared.runtime import Request

from .ownership import Recorded, recorded
from .rendering import RenderedClass, render

_UNREFERENCED = LookupResult("unreferenced")


@dataclass(frozen=True)
class Assets:
    """A release's class chart with its file name, and the Kubernetes version that the release is made for."""

    file: str
    chart: bytes
    kubernetes: str


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about one ClusterStackRelease."""

    release: Object | None
    name: ReleaseName | None = None
    """The parsed name of the object; None if it is not the name of a release."""
    assets: Assets | MissingAssets | None = None
    provider: LookupResult = _UNREFERENCED
    management: ClusterConnection | None = None
    """The cluster to which the objects are applied."""
    rendered: RenderedClass | None = None
    """The objects of the class chart; only with all prerequisites."""
    claimed: frozenset[Identity] = frozenset()
    """Objects that other releases contain as well, so they are not pruned with this release."""
    recorded: Recorded = frozenset()
    """The objects in the inventories of this cluster stack's releases."""
    users: tuple[Key, ...] = ()
    """The Clusters whose class comes from this release; only read while it is being deleted."""
    failure: str = ""
    """Why the users could not be read."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the prerequisites in order, up to the first that is missing; for a deletion the users of the release."""
    key, release = request.key, request.primary
    if release is None or cluster_api.is_paused(release):
        return Observed(release)
    name = ReleaseName.from_class_name(key.name)
    if deleting(release):
        return _observe_deletion(clients, key, release, name)
    if name is None or name.tag != key.name:
        return Observed(release)
    assets = _assets(clients, name, key.namespace)
    if isinstance(assets, MissingAssets):
        return Observed(release, name, assets)
    provider = _provider(clients, release)
    if not provider_is_ready(provider):
        return Observed(release, name, assets, provider)
    version = clients.management.version()
    clients.discovery.invalidate()  # charts leave out objects of unserved kinds, and the cache may be outdated
    management = connect_management(clients)
    rendered = render(assets.chart, assets.file, name, management, version, key.namespace)
    others = _others(clients, key)
    applied = recorded(release, others, name)
    return Observed(release, name, assets, provider, management, rendered, _claimed(others), applied)


def provider_is_ready(provider: LookupResult) -> bool:
    """Returns whether the provider's object is ready, or the release needs none."""
    return provider.state == "unreferenced" or dig(provider.object, "status.ready") is True


def _provider(clients: Clients, release: Object, *, undefined_is_absent: bool = False) -> LookupResult:
    """Returns the provider's object for the release; objects of other kinds are neither read nor deleted."""
    reference = dig(release, "spec.providerRef") or {}
    kind = str(reference.get("kind") or "")
    if kind and not is_provider_release(kind):
        error = f"spec.providerRef: {kind} is not a <Provider>{CLUSTER_STACK_RELEASE.kind}"
        return LookupResult("failed", kind, error=error, reason=NOT_ALLOWED)
    return get_reference(clients, reference, key_of(release).namespace, undefined_is_absent=undefined_is_absent)


def _observe_deletion(clients: Clients, key: Key, release: Object, name: ReleaseName | None) -> Observed:
    provider = _provider(clients, release, undefined_is_absent=True)
    try:
        using = users_by_release(list_defined(clients.management, CLUSTER))
    except NotServed as error:
        return Observed(release, name, failure=str(error))
    others = _others(clients, key)
    return Observed(
        release,
        name,
        provider=provider,
        management=connect_management(clients),
        claimed=_claimed(others, using),
        recorded=recorded(release, others, name) if name else frozenset(),
        users=using.get(key, ()),
    )


def _assets(clients: Clients, name: ReleaseName, namespace: str) -> Assets | MissingAssets:
    store = clients.releases.in_scope(resolve_source(clients, namespace, name).scope)

    def of_stored(stored: Release) -> Assets:
        return Assets(stored.class_chart, store.read(stored, stored.class_chart), stored.metadata.kubernetes)

    return read_release(store, name.tag, of_stored, complete=True)


def _others(clients: Clients, key: Key) -> list[Object]:
    """Returns the other releases in the namespace."""
    return [r for r in clients.management.list(CLUSTER_STACK_RELEASE, key.namespace) if key_of(r) != key]


def _claimed(others: list[Object], using: Users | None = None) -> frozenset[Identity]:
    """Returns the objects in the inventories of the other releases in the namespace.

    Args:
        others: The other releases.
        using: The Clusters that use each release. If given, unused releases that are being deleted are left out, too.
    """
    staying = [r for r in others if using is None or not deleting(r) or key_of(r) in using]
    return frozenset(entry.identity for r in staying for entry in inventory.load(dig(r, "status.resources")))
