"""What is read before a provider may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.api import provider as provider_api
from shared.api.provider import KINDS
from shared.api.resources import CONFIG_MAP
from shared.clients import Clients
from shared.kube import Key, Object, Resource, deleting, dig, has_finalizer, key_of
from shared.kube.crds import CRD
from shared.providers import peers
from shared.providers.belongings import belongings
from shared.workload.inventory import Entry
from shared.workload.reach import Reached, here

FORCE = ("metadata", "annotations", "capi-functions.dev/force-delete")


@dataclass(frozen=True)
class Observed:
    provider: Object | None
    entries: Sequence[Entry] = ()
    custom: Mapping[str, int] = field(default_factory=dict)
    """How many objects there are of each of its kinds that has any."""
    others: Sequence[Object] = ()
    """The other providers, for the core provider, which has to stay until last."""
    downloads: Sequence[Object] = ()
    """ConfigMaps with versions that were downloaded for it."""
    management: Reached | None = None


def observe(clients: Clients, _key: Key, provider: Object | None) -> Observed:
    if provider is None or not deleting(provider) or not has_finalizer(provider, provider_api.FINALIZER):
        return Observed(provider)
    entries = belongings(provider)
    kind = provider_api.kind_of(provider)
    others = peers.all_of(clients, *KINDS[1:]) if kind.is_core else []
    forced = dig(provider, FORCE) == "true"
    custom = {} if forced else _counted(clients, provider, entries)
    return Observed(provider, entries, custom, others, _downloads(clients, provider), here(clients))


def _counted(clients: Clients, provider: Object, entries: Sequence[Entry]) -> dict[str, int]:
    names = [entry.name for entry in entries if (entry.group, entry.kind) == (CRD.group, CRD.kind)]
    if not names:
        return {}
    selector = f"{provider_api.PROVIDER_LABEL}={provider_api.label_of(provider)}"
    labelled = {crd["metadata"]["name"]: crd for crd in clients.management.list(CRD, selector=selector)}
    counts = {}
    for name in names:
        crd = labelled.get(name) or clients.management.find(CRD, Key("", name))
        served = [each for each in dig(crd, "spec.versions", []) if each.get("served")]
        if not served:
            continue
        # As they are stored: any other version takes a conversion by the provider itself, which may not run any more.
        version = next((each for each in served if each.get("storage")), served[0])
        resource = Resource(
            dig(crd, "spec.group"), version["name"], dig(crd, "spec.names.kind"), dig(crd, "spec.names.plural")
        )
        page = clients.management.request("GET", resource.path(), query={"limit": "1"}, subject=f"{resource.kind} list")
        if found := page.get("items"):
            counts[resource.kind] = len(found) + int(dig(page, "metadata.remainingItemCount", 0))
    return counts


def _downloads(clients: Clients, provider: Object) -> list[Object]:
    selector = ",".join(f"{name}={value}" for name, value in provider_api.download_labels(provider).items())
    found = clients.management.list(CONFIG_MAP, key_of(provider).namespace, selector=selector)
    uid = provider["metadata"]["uid"]
    return [obj for obj in found if any(owner.get("uid") == uid for owner in dig(obj, "metadata.ownerReferences", []))]
