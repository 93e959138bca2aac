"""Starts `provider_preflight` when a provider, or something that it depends on, is created or changed.

The other phases follow by their events.
"""

from __future__ import annotations

from shared import profiles
from shared.api.provider import GROUP, PLURALS, RESOURCES
from shared.api.resources import CONFIG_MAP, SECRET
from shared.providers import phases
from shared.providers.reconciled import is_reconciled
from shared.settings import NETWORK, PROVIDER_SOURCES
from shared.triggers import ANNOTATIONS, READ_CRDS, Rule, Subscription, Triggers, Watch

TRIGGERS = Triggers(
    name="provider_preflight",
    profiles=profiles.PROVIDERS,
    primary_kinds=RESOURCES,
    watches=tuple(
        # Finalizers are not watched: `provider_install` adds one, and would start all phases again.
        Watch(
            resource,
            fields=("metadata.generation", ANNOTATIONS),
            changes=("add", "update"),
        )
        for resource in RESOURCES
    ),
    subscriptions=(Subscription(phases.event_type(phases.CHANGED)),),
    # All phases follow from this phase, so its `is_reconciled` covers them.
    is_reconciled=is_reconciled,
    rules=(
        Rule(GROUP, PLURALS, ("get", "list")),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),  # spec.configSecret
        Rule(CONFIG_MAP.group, (CONFIG_MAP.plural,), ("get", "list")),  # selectors, spec.additionalManifests
        READ_CRDS,
    ),
    settings=(PROVIDER_SOURCES, NETWORK),
)
