"""Finds controllers of other projects that run in the management cluster, so that their objects are left to them."""

from __future__ import annotations

from .api.provider import CORE_NAME, PROVIDER_LABEL
from .api.resources import DEPLOYMENT
from .kube import ApiError, Client, dig, key_of
from .ttl_cache import TTLCache

_SECONDS = 30.0
"""Seconds for which the answer is cached."""


HELM_ADDON_NAMES = ("helm", "addon-helm")
"""The names of Cluster API Addon Provider Helm in the label of its Deployment."""


def find_running_core(management: Client) -> str:
    """Returns the name of the Deployment of a running Cluster API core; empty if none runs or reading is denied."""
    return find_running(management, CORE_NAME)


def running_core(management: Client, remembered: TTLCache) -> str:
    """Returns the cached result of `find_running_core`. Raises `ApiError`."""
    return remembered.get("core", _SECONDS, lambda: find_running_core(management))


def find_running(management: Client, *names: str) -> str:
    """Returns the name of a Deployment with available replicas of the provider that has one of these names.

    Empty if none runs or reading is denied. Raises `ApiError`.
    """
    try:
        everywhere = management.limited_to(())
        for deployment in everywhere.list(DEPLOYMENT, selector=f"{PROVIDER_LABEL} in ({','.join(names)})"):
            if dig(deployment, "status.availableReplicas", 0) > 0:
                return str(key_of(deployment))
    except ApiError as error:
        if error.status != 403:
            raise
    return ""
