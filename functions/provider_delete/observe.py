"""Reads the possible obstacles to the deletion of a provider: custom resources of its kinds, and other providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.provider import KINDS
from shared.api.resources import CONFIG_MAP
from shared.applier.connection import ClusterConnection, connect_management
from shared.applier.inventory import InventoryEntry
from shared.clients import Clients
from shared.kube import Key, NotServed, Object, deleting, dig, has_finalizer, key_of
from shared.kube.client import METADATA_LIST
from shared.kube.crds import CRD, stored_resource
from shared.providers import peers
from shared.providers.annotations import FORCE_DELETE
from shared.providers.ownership import inventory_of
from shared.runtime import Request

FORCE = ("metadata", "annotations", FORCE_DELETE)


@dataclass(frozen=True)
class Observed:
    """The inputs of a decision about the deletion of one provider."""

    provider: Object | None
    inventory: Sequence[InventoryEntry] = ()
    custom_resources: Mapping[str, int] = field(default_factory=dict)
    """The number of custom resources by kind, without those in the inventory; kinds without objects are left out."""
    crds_deleted_at: datetime | None = None
    """When the deletion of the first CRD was requested; None if no CRD is being deleted."""
    others: Sequence[Object] = ()
    """All other providers if this is the core provider, which must be deleted last; empty for any other provider."""
    downloads: Sequence[Object] = ()
    """The ConfigMaps with versions that were downloaded for the provider."""
    management: ClusterConnection | None = None


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the possible obstacles; nothing unless the provider is being deleted and has the finalizer."""
    provider = request.primary
    if provider is None or not deleting(provider) or not has_finalizer(provider, provider_api.FINALIZER):
        return Observed(provider)
    entries = inventory_of(provider)
    kind = provider_api.kind_of(provider)
    others = peers.list_providers(clients, *KINDS[1:]) if kind.is_core else []
    crds = _live_crds(clients, provider, entries)
    custom = Counter[str]()
    for crd in crds:
        custom[dig(crd, "spec.names.kind")] += _count(clients, crd, entries)
    times = [datetime.fromisoformat(crd["metadata"]["deletionTimestamp"]) for crd in crds if deleting(crd)]
    return Observed(
        provider,
        entries,
        custom_resources=+custom,
        crds_deleted_at=min(times, default=None),
        others=others,
        downloads=_downloads(clients, provider),
        management=connect_management(clients),
    )


def is_crd(entry: InventoryEntry) -> bool:
    """Returns whether the entry is a CRD."""
    return (entry.group, entry.kind) == (CRD.group, CRD.kind)


def _live_crds(clients: Clients, provider: Object, entries: Sequence[InventoryEntry]) -> list[Object]:
    """Returns the existing CRDs of the inventory."""
    names = [entry.name for entry in entries if is_crd(entry)]
    if not names:
        return []
    selector = provider_api.selector_of(provider)
    labelled = {crd["metadata"]["name"]: crd for crd in clients.management.list(CRD, selector=selector)}
    found = (labelled.get(name) or clients.management.find(CRD, Key("", name)) for name in names)
    return [crd for crd in found if crd is not None]


def _count(clients: Clients, crd: Object, entries: Sequence[InventoryEntry]) -> int:
    resource = stored_resource(crd)
    if resource is None:
        kind = dig(crd, "spec.names.kind")
        raise NotServed(f"CRD {key_of(crd).name} serves no version, so its {kind} objects cannot be counted")
    own = {entry.uid for entry in entries if (entry.group, entry.kind) == (resource.group, resource.kind)}
    if own:
        pages = clients.management.pages(resource, accept=METADATA_LIST)
        return sum(obj["metadata"]["uid"] not in own for page in pages for obj in page["items"])
    page = clients.management.request("GET", resource.path(), query={"limit": "1"}, subject=f"{resource.kind} list")
    return len(page.get("items") or []) + int(dig(page, "metadata.remainingItemCount", 0))


def _downloads(clients: Clients, provider: Object) -> list[Object]:
    selector = ",".join(f"{name}={value}" for name, value in provider_api.download_labels(provider).items())
    found = clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector)
    uid = provider["metadata"]["uid"]
    return [obj for obj in found if any(owner.get("uid") == uid for owner in dig(obj, "metadata.ownerReferences", []))]
