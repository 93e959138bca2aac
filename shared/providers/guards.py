"""The states of a provider in which no phase of its installation does anything."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.kube import Object, deleting

from .status import passed_preflight


def why_not_due(provider: Object | None, *, checked: bool = True) -> str:
    """Returns why a phase does nothing for the provider; empty if it may have work.

    Args:
        provider: The provider object; None if it does not exist.
        checked: Whether the phase needs a spec that has passed the checks of `provider_preflight`.
    """
    if provider is None or deleting(provider):
        return "the provider does not exist or is being deleted"
    if cluster_api.is_paused(provider):
        return "paused"
    if checked and not passed_preflight(provider):
        return "the preflight checks have not passed"
    return ""
