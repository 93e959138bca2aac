"""Starts `provider_install` when `provider_fetch` has stored the components."""

from __future__ import annotations

from shared import profiles
from shared.api.provider import RESOURCES
from shared.providers import phases
from shared.settings import NETWORK, PROVIDER_SOURCES, STORAGE
from shared.triggers import Rule, Subscription, Triggers

TRIGGERS = Triggers(
    name="provider_install",
    profiles=profiles.PROVIDERS,
    primary_kinds=RESOURCES,
    subscriptions=(Subscription(phases.event_type(phases.FETCHED)),),
    # Components are of any kind and include roles, which only an account with the same rights may create.
    rules=(Rule("*", ("*",), ("*",)),),
    settings=(STORAGE, PROVIDER_SOURCES, NETWORK),
)
