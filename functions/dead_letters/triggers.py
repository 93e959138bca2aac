"""Declares `dead_letters`: nothing starts it but the dead-letter sink of the Broker, and the forwarder."""

from __future__ import annotations

from functions import catalog
from shared import profiles
from shared.dead_letters import FUNCTION
from shared.event import REFERENCE
from shared.settings import STORAGE
from shared.triggers import RECORD_EVENTS, Rule, Triggers

FUNCTIONS = catalog.names()
KINDS = tuple(
    dict.fromkeys(
        kind for declared in catalog.triggers(without=(FUNCTION, "sweep")).values() for kind in declared.primaries
    )
)
"""The kinds whose objects get a Kubernetes event: the kinds that functions reconcile."""

TRIGGERS = Triggers(
    name=FUNCTION,
    profiles=profiles.ALWAYS,
    rules=(*(Rule(kind.group, (kind.plural,), ("get",)) for kind in KINDS), RECORD_EVENTS),
    settings=(STORAGE,),
    emits=tuple(REFERENCE + change for change in ("add", "update", "delete")),  # of `dead-letter replay` in its pod
)
