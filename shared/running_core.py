"""Finds controllers of other projects that run in the management cluster, so that their objects are left to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .api.provider import CORE_NAME, PROVIDER_LABEL
from .api.resources import DEPLOYMENT, VALIDATING_WEBHOOKS
from .kube import ApiError, Client, Object, Resource, dig, key_of
from .ttl_cache import TTLCache

_SECONDS = 30.0
"""Seconds for which the answer is cached."""

_HELM_ADDON_NAMES = ("helm", "addon-helm")
"""The names of Cluster API Addon Provider Helm in the label of its Deployment."""


def find_running_core(management: Client) -> str:
    """Returns the name of the Deployment of a running Cluster API core; empty if none runs or reading is denied."""
    return find_running(management, CORE_NAME)


def running_core(management: Client, remembered: TTLCache) -> str:
    """Returns the cached result of `find_running_core`. Raises `ApiError`."""
    return remembered.get("core", _SECONDS, lambda: find_running_core(management))


def running_helm_addon(management: Client, remembered: TTLCache) -> str:
    """Returns the cached name of the Deployment of Cluster API Addon Provider Helm, as `find_running` does."""
    return remembered.get("helm addon", _SECONDS, lambda: find_running(management, *_HELM_ADDON_NAMES))


def find_running(management: Client, *names: str) -> str:
    """Returns the name of a Deployment with available replicas of the provider that has one of these names.

    Empty if none runs, or if reading Deployments is denied. Raises `ApiError`.
    """
    selector = f"{PROVIDER_LABEL} in ({','.join(names)})"
    everywhere = management.limited_to(())
    running = [
        deployment
        for deployment in _readable(everywhere, DEPLOYMENT, selector) or []
        if dig(deployment, "status.availableReplicas", 0) > 0
    ]
    webhooks = _readable(everywhere, VALIDATING_WEBHOOKS, selector) if running else []
    found = running if webhooks is None else of_administrators(running, webhooks)
    return str(key_of(found[0])) if found else ""


def of_administrators(deployments: Iterable[Object], webhooks: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Returns the Deployments in the namespaces to which the webhook configurations of the same provider point.

    A tenant may give a Deployment the label of a provider, too, but only administrators of the cluster write webhook
    configurations.
    """
    clients = [dig(one, "clientConfig", {}) for configuration in webhooks for one in dig(configuration, "webhooks", [])]
    namespaces = {dig(client, "service.namespace") for client in clients}
    by_url = any(dig(client, "url") for client in clients)  # a manager outside the cluster, as in a local run
    return [one for one in deployments if by_url or key_of(one).namespace in namespaces]


def _readable(client: Client, resource: Resource, selector: str) -> list[Object] | None:
    """Returns the selected objects; None if reading is denied. Raises `ApiError`."""
    try:
        return list(client.list(resource, selector=selector))
    except ApiError as error:
        if error.status != 403:
            raise
        return None
