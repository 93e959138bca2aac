"""The function `addon_cleanup`: deletes load balancers and volumes of a Cluster that is being deleted."""

from __future__ import annotations

from datetime import datetime

from shared.api.hooks import BEFORE_CLUSTER_DELETE, Limits
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object, dig
from shared.runtime import Answer, Decision, Function

from .decide import decide, report
from .observe import Observed, observe
from .triggers import TRIGGERS


def is_reconciled(addon: Object, _event: Event) -> bool:
    """Returns whether no hook requests a clean-up."""
    return bool(dig(addon, "spec.hook") != BEFORE_CLUSTER_DELETE)


def _decide(observed: Observed, now: datetime) -> Decision:
    return decide(observed, now, Limits.from_env())


def handle(clients: Clients, event: Event) -> Answer:
    """Handles an event about a ClusterAddon or its Cluster."""
    return Function(TRIGGERS, observe, _decide, is_reconciled, report).handle(clients, event)
