"""The function `helm_release_proxy`: the Helm release of a chart in one workload cluster."""

from __future__ import annotations

from collections.abc import Collection

from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS

_LOCK = KeyedLock("this release")
"""Serializes concurrent deliveries about one release within this process, so that the second finds the work done."""


def _confidential(observed: Observed) -> Collection[str]:
    return observed.confidential


FUNCTION = Function(TRIGGERS, observe, decide, sensitive_values=_confidential, trusts_events=False)
"""Events are not trusted, because an invented one could name another chart."""


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a HelmReleaseProxy, or the answer to its request for a chart."""
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            return FUNCTION.handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
