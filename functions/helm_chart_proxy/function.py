"""The function `helm_chart_proxy`: makes a HelmReleaseProxy for each Cluster that a HelmChartProxy selects."""

from __future__ import annotations

from shared.clients import Clients
from shared.event import Event
from shared.kube import Unavailable
from shared.runtime import Answer, Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

_LOCK = KeyedLock("this HelmChartProxy")
"""Serializes deliveries about one HelmChartProxy within this process, because each renders for all its Clusters."""

# A credential may be in any namespace, so the spec in an event is not trusted.
FUNCTION = Function(TRIGGERS, observe, decide, trusts_events=False)


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a HelmChartProxy."""
    try:
        with _LOCK.hold((id(clients), TRIGGERS.key(event))):
            return FUNCTION.handle(clients, event)
    except Unavailable as error:
        return Answer(503, str(error), retry_after=error.retry_after)
