"""What is read for a decision about one ClusterStackRelease, in the order in which things must be there.

The first obstacle ends the reading: what would come after it does not matter yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.connection import ClusterConnection, connect_management
from shared.clients import Clients, LookupResult
from shared.kube import Key, NotServed, Object, deleting, dig, key_of
from shared.kube.crds import list_defined
from shared.manifests import Identity
from shared.releases.missing import MissingAssets, read
from shared.releases.naming import ReleaseName
from shared.releases.origin import of_release
from shared.releases.release import Release
from shared.releases.usage import Users, users

_NOTHING = LookupResult("unreferenced")


@dataclass(frozen=True)
class Assets:
    """A release's class chart, by the name of its file, and the Kubernetes version that the release is made for."""

    file: str
    chart: bytes
    kubernetes: str


@dataclass(frozen=True)
class Management:
    """The management cluster, as a place to apply a chart to, and its Kubernetes version."""

    reached: ClusterConnection
    version: str = ""


@dataclass(frozen=True)
class Observed:
    release: Object | None
    name: ReleaseName | None = None
    """What the object is called; None for what is no release's name."""
    assets: Assets | MissingAssets | None = None
    provider: LookupResult = _NOTHING
    management: Management | None = None
    claimed: frozenset[Identity] = frozenset()
    """Objects that other releases brought, too: not to be deleted with this one."""
    users: tuple[Key, ...] = ()
    """The Clusters whose class comes from this release; read only while it is being deleted."""
    failure: str = ""
    """Why nobody can tell which Clusters those are."""


def observe(clients: Clients, key: Key, release: Object | None) -> Observed:
    if release is None or cluster_api.is_paused(release):
        return Observed(release)
    name = ReleaseName.from_class_name(key.name)
    if deleting(release):
        return _leaving(clients, key, release, name)
    if name is None or name.tag != key.name:
        return Observed(release)
    assets = _assets(clients, name, key.namespace)
    if isinstance(assets, MissingAssets):
        return Observed(release, name, assets)
    provider = clients.get_reference(dig(release, "spec.providerRef"), key.namespace)
    if not provided(provider):
        return Observed(release, name, assets, provider)
    version = clients.management.version()
    clients.discovery.invalidate()  # the chart leaves out what it does not find: what was known before is not enough
    management = Management(connect_management(clients), version)
    return Observed(release, name, assets, provider, management, _claimed(clients, key))


def provided(provider: LookupResult) -> bool:
    """The provider has done what it has to do for the release, if anything."""
    return provider.state == "unreferenced" or dig(provider.object, "status.ready") is True


def _leaving(clients: Clients, key: Key, release: Object, name: ReleaseName | None) -> Observed:
    provider = clients.get_reference(dig(release, "spec.providerRef"), key.namespace, undefined_is_absent=True)
    try:
        using = users(list_defined(clients.management, CLUSTER))
    except NotServed as error:
        return Observed(release, name, failure=str(error))
    claimed = _claimed(clients, key, using)
    management = Management(connect_management(clients))
    return Observed(release, name, provider=provider, management=management, claimed=claimed, users=using.get(key, ()))


def _assets(clients: Clients, name: ReleaseName, namespace: str) -> Assets | MissingAssets:
    store = clients.releases.within(of_release(clients, namespace, name).scope)

    def of_stored(stored: Release) -> Assets:
        return Assets(stored.class_chart, store.read(stored, stored.class_chart), stored.metadata.kubernetes)

    return read(store, name.tag, of_stored, whole=True)


def _claimed(clients: Clients, key: Key, using: Users | None = None) -> frozenset[Identity]:
    """By all other releases of the namespace; given `using`, not by those that are on their way out themselves."""
    others = [r for r in clients.management.list(CLUSTER_STACK_RELEASE, key.namespace) if key_of(r) != key]
    staying = [r for r in others if using is None or not deleting(r) or key_of(r) in using]
    return frozenset(entry.identity for r in staying for entry in inventory.load(dig(r, "status.resources")))
