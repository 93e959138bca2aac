"""`addon_cleanup`, put together."""

from __future__ import annotations

from datetime import datetime

from shared.api.hooks import BEFORE_DELETE, Limits
from shared.clients import Clients
from shared.event import Event
from shared.kube import Object, dig
from shared.runtime import Answer, Decision, Function

from .decide import decide, report
from .observe import Observed, observe
from .triggers import TRIGGERS


def settled(addon: Object, _event: Event) -> bool:
    return bool(dig(addon, "spec.hook") != BEFORE_DELETE)


def _decide(observed: Observed, now: datetime) -> Decision:
    return decide(observed, now, Limits.from_env())


def handle(clients: Clients, event: Event) -> Answer:
    return Function(TRIGGERS, observe, _decide, settled, report).handle(clients, event)
