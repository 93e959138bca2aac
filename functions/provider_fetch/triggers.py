"""Starts `provider_fetch` when a provider has passed the checks of `provider_preflight`."""

from __future__ import annotations

from shared import profiles
from shared.api.provider import GROUP, PLURALS, RESOURCES
from shared.api.resources import CONFIG_MAP, SECRET
from shared.providers import phases
from shared.settings import NETWORK, PROVIDER_SOURCES, STORAGE
from shared.triggers import READ_CRDS, Rule, Subscription, Triggers

TRIGGERS = Triggers(
    name="provider_fetch",
    profiles=profiles.PROVIDERS,
    primary_kinds=RESOURCES,
    subscriptions=(Subscription(phases.event_type(phases.CHECKED)),),
    rules=(
        Rule(GROUP, PLURALS, ("get", "list", "patch")),  # spec.version
        Rule(SECRET.group, (SECRET.plural,), ("get",)),  # spec.configSecret
        Rule(CONFIG_MAP.group, (CONFIG_MAP.plural,), ("get", "list", "patch", "create")),
        READ_CRDS,
    ),
    settings=(STORAGE, PROVIDER_SOURCES, NETWORK),
)
