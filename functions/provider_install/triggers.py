"""What starts `provider_install`: components that were fetched."""

from __future__ import annotations

from shared.api.provider import KINDS
from shared.providers import phases
from shared.settings import NETWORK, PROVIDER_SOURCES, STORAGE
from shared.triggers import Rule, Subscription, Triggers

TRIGGERS = Triggers(
    name="provider_install",
    primary_kinds=tuple(kind.resource for kind in KINDS),
    subscriptions=(Subscription(phases.event_type(phases.FETCHED), phases.provider_key),),
    # Components are of any kind, and bring roles: only who has a right may grant it.
    rules=(Rule("*", ("*",), ("*",)),),
    settings=(STORAGE, PROVIDER_SOURCES, NETWORK),
)
