"""Finds a Cluster API core that runs in the management cluster."""

from __future__ import annotations

from .api.provider import CORE_NAME, PROVIDER_LABEL
from .api.resources import DEPLOYMENT
from .kube import ApiError, Client, dig, key_of


def find_running_core(management: Client) -> str:
    """Returns the name of the Deployment of a running Cluster API core; empty if none runs or reading is denied."""
    try:
        everywhere = management.limited_to(())
        for deployment in everywhere.list(DEPLOYMENT, selector=f"{PROVIDER_LABEL}={CORE_NAME}"):
            if dig(deployment, "status.availableReplicas", 0) > 0:
                return str(key_of(deployment))
    except ApiError as error:
        if error.status != 403:
            raise
    return ""
