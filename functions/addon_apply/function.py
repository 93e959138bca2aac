"""The function `addon_apply`: applies the addons of a Cluster's release to the workload cluster."""

from __future__ import annotations

from collections.abc import Collection

from shared.addons.context import ReleaseContext
from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .conflict import on_conflict
from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS

_LOCK = KeyedLock("this addon")
"""Serializes concurrent deliveries about one addon within this process, so that the second finds the work done. Two
processes may both apply the release, which is harmless."""


def _looked_up_secrets(observed: Observed) -> Collection[str]:
    """Returns the values of Secrets that templates read by `lookup`, because any rendered object may contain them."""
    live = observed.context.capabilities.live if isinstance(observed.context, ReleaseContext) else None
    return live.secrets if live is not None else ()


FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_conflict=on_conflict,
    sensitive_values=_looked_up_secrets,
    is_sole_writer=True,
)


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a ClusterAddon, its Cluster, the kubeconfig Secret, or a fetched release."""
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            return FUNCTION.handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
