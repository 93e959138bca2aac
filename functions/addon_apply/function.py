"""The function `addon_apply`: applies the addons of a Cluster's release to the workload cluster."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from shared.addons.context import ReleaseContext
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .conflict import on_conflict
from .decide import decide
from .observe import Observed, observe
from .reconciled import is_reconciled
from .report import report
from .triggers import TRIGGERS

_LOCK = KeyedLock("this addon")
"""Serializes concurrent deliveries about one addon within this process, so that the second finds the work done. Two
processes may both apply the release, which is harmless."""


def _looked_up_secrets(observed: Observed) -> Collection[str]:
    """Returns the values of Secrets that templates read by `lookup`: any rendered object may contain them."""
    live = observed.finding.capabilities.live if isinstance(observed.finding, ReleaseContext) else None
    return live.secrets if live is not None else ()


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a ClusterAddon, its Cluster, the kubeconfig Secret, or a fetched release."""
    # A changed kubeconfig Secret may point to another cluster, or to none: connect even if the addon is up to date.
    observe_event = partial(observe, resync=event.resync, check_connection=event.kind == SECRET.kind)
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            function = Function(
                TRIGGERS,
                observe_event,
                decide,
                is_reconciled,
                report,
                on_conflict,
                sensitive_values=_looked_up_secrets,
            )
            return function.handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
