"""Starts `component_prune` by an hourly timer."""

from __future__ import annotations

from shared import profiles
from shared.api.provider import GROUP, PLURALS
from shared.settings import STORAGE
from shared.triggers import EVERY_HOUR, READ_CRDS, Rule, Triggers

TRIGGERS = Triggers(
    name="component_prune",
    profiles=profiles.PROVIDERS,
    subscriptions=(EVERY_HOUR,),
    rules=(Rule(GROUP, PLURALS, ("list",)), READ_CRDS),
    settings=(STORAGE,),
)
