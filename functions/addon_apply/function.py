"""`addon_apply`, put together."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from shared.addons.context import Release
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .conflict import on_conflict
from .decide import decide
from .observe import Observed, observe
from .report import report
from .settled import settled
from .triggers import TRIGGERS

_LOCK = KeyedLock("this addon")
"""The second of two deliveries about one addon then finds the work done; across processes, each does it at worst."""


def _looked_up(observed: Observed) -> Collection[str]:
    """What the release's charts have read from the cluster's Secrets, and may have put anywhere."""
    live = observed.found.facts.live if isinstance(observed.found, Release) else None
    return live.secrets if live is not None else ()


def handle(clients: Clients, event: Event) -> Answer:
    # Another kubeconfig may lead nowhere, or to another cluster.
    look = partial(observe, resync=event.resync, doubt=event.kind == SECRET.kind)
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            return Function(TRIGGERS, look, decide, settled, report, on_conflict, sensitive_values=_looked_up).handle(
                clients, event
            )
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
