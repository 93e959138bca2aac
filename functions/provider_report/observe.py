"""Reads whether the workloads, webhooks and CRDs in a provider's inventory work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.api import provider as provider_api
from shared.api.resources import DAEMON_SET, DEPLOYMENT, ENDPOINT_SLICE, SERVICE, WEBHOOK_CONFIGURATIONS
from shared.applier import inventory
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import PREFIX
from shared.applier.readiness import unready_reason
from shared.clients import Clients
from shared.event import Event
from shared.kube import Key, Object, Resource, deleting, dig, key_of
from shared.kube.crds import CRD
from shared.providers.status import in_progress
from shared.runtime import Request

WAIT = ("metadata", "annotations", f"{PREFIX}wait")
WORKLOADS = (DEPLOYMENT, DAEMON_SET)


@dataclass(frozen=True)
class Observed:
    """The state of one provider's components.

    Each sequence has a text for each problem. Only the first sequence that is not empty is reported.
    """

    provider: Object | None
    installed: bool = False
    resumable: bool = False
    """Whether an installation is in progress that may have waited for the workload of this event, which is ready."""
    wait: bool = True
    """Whether to check the components; False if the provider's annotation turns the checks off."""
    missing: Sequence[str] = ()
    """Workloads and webhook configurations that do not exist."""
    unavailable: Sequence[str] = ()
    """Workloads that are not ready."""
    unanswered: Sequence[str] = ()
    """Webhooks whose Service has no endpoint."""
    unserved: Sequence[str] = ()
    """CRDs whose kinds the API server does not serve yet."""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the state of the provider."""
    provider, event = request.primary, request.event
    if provider is None or deleting(provider):
        return Observed(provider)
    if in_progress(provider):
        return Observed(provider, resumable=_is_ready_workload(event))
    entries = inventory.load(dig(provider, "status.resources"))
    if not provider_api.installed_version(provider):
        return Observed(provider)
    if dig(provider, WAIT) == "false":
        return Observed(provider, installed=True, wait=False)
    missing, unavailable = _workloads(clients, provider, entries)
    if missing or unavailable:
        return Observed(provider, installed=True, missing=missing, unavailable=unavailable)
    missing, unanswered = _webhooks(clients, provider, entries)
    unserved = _unserved(clients, entries)
    return Observed(provider, installed=True, missing=missing, unanswered=unanswered, unserved=unserved)


def _is_ready_workload(event: Event) -> bool:
    """Returns whether the event is about a workload that is ready."""
    is_workload = event.kind in [workload.kind for workload in WORKLOADS]
    return is_workload and event.object is not None and not unready_reason(event.object)


def _workloads(clients: Clients, provider: Object, entries: Sequence[InventoryEntry]) -> tuple[list[str], list[str]]:
    """Returns missing and unavailable workloads, with one list request for each kind and namespace."""
    missing, unavailable = [], []
    selector = provider_api.selector_of(provider)
    for resource in WORKLOADS:
        of_kind = [entry for entry in entries if (entry.group, entry.kind) == (resource.group, resource.kind)]
        found = {
            key_of(obj): obj
            for namespace in sorted({entry.namespace for entry in of_kind})
            for obj in clients.management.list(resource, namespace, selector=selector)
        }
        for entry in of_kind:
            workload = found.get(Key(entry.namespace, entry.name))
            if workload is None:
                missing.append(str(entry))
            elif why := unready_reason(workload):
                unavailable.append(f"{entry}: {why}")
    return missing, unavailable


def _webhooks(clients: Clients, provider: Object, entries: Sequence[InventoryEntry]) -> tuple[list[str], list[str]]:
    """Returns missing webhook configurations, and webhooks whose Service has no endpoint.

    The configurations are only read if one of the provider's Services has no endpoint; this Service need not belong to
    a webhook. Otherwise a resync finds deleted configurations, as it does for all objects but workloads.
    """
    configurations = _of_kinds(entries, WEBHOOK_CONFIGURATIONS)
    if not configurations:
        return [], []
    namespace = key_of(provider).namespace
    answering = {
        dig(found, ("metadata", "labels", "kubernetes.io/service-name"))
        for found in clients.management.list(ENDPOINT_SLICE, namespace)
        if any(dig(endpoint, "conditions.ready", True) for endpoint in found.get("endpoints") or [])
    }
    own = {entry.name for _, entry in _of_kinds(entries, (SERVICE,)) if entry.namespace == namespace}
    if own and own <= answering:
        return [], []
    missing: list[str] = []
    services: dict[str, str] = {}
    for resource, entry in configurations:
        found = clients.management.find(resource, Key("", entry.name))
        if found is None:
            missing.append(str(entry))
        for webhook in dig(found, "webhooks", []):
            if name := dig(webhook, "clientConfig.service.name"):
                services.setdefault(name, str(entry))
    return missing, [
        f"{entry}: Service {namespace}/{name} has no endpoint"
        for name, entry in services.items()
        if name not in answering
    ]


def _of_kinds(
    entries: Sequence[InventoryEntry], resources: Sequence[Resource]
) -> list[tuple[Resource, InventoryEntry]]:
    """Returns the entries of these kinds, each with its kind, in the order of the kinds."""
    return [
        (resource, entry)
        for resource in resources
        for entry in entries
        if (entry.group, entry.kind) == (resource.group, resource.kind)
    ]


def _unserved(clients: Clients, entries: Sequence[InventoryEntry]) -> list[str]:
    installed = {entry.name for entry in entries if (entry.group, entry.kind) == (CRD.group, CRD.kind)}
    for _attempt in range(2):
        served = {f"{resource.plural}.{resource.group}" for resource in clients.discovery.served().values()}
        if installed <= served:
            return []
        clients.discovery.invalidate()
    return sorted(installed - served)
