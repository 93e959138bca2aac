"""`addon_apply`, put together."""

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
"""The second of two deliveries about one addon then finds the work done; across processes, each does it at worst."""


def _looked_up_secrets(observed: Observed) -> Collection[str]:
    """What the release's charts have read from the cluster's Secrets, and may have put anywhere."""
    live = observed.finding.capabilities.live if isinstance(observed.finding, ReleaseContext) else None
    return live.secrets if live is not None else ()


def handle(clients: Clients, event: Event) -> Answer:
    # Another kubeconfig may lead nowhere, or to another cluster.
    look = partial(observe, resync=event.resync, doubt=event.kind == SECRET.kind)
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            return Function(
                TRIGGERS, look, decide, is_reconciled, report, on_conflict, sensitive_values=_looked_up_secrets
            ).handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
