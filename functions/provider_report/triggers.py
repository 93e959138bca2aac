"""Starts `provider_report` when an installation is done, and when a workload of a provider changes."""

from __future__ import annotations

from shared import profiles
from shared.api.provider import GROUP, KINDS, PROVIDER_LABEL
from shared.api.resources import DAEMON_SET, DEPLOYMENT, ENDPOINT_SLICE
from shared.providers import phases
from shared.triggers import Rule, Subscription, Triggers, Watch

_FIELDS = ("metadata.generation", "metadata.deletionTimestamp", "status.observedGeneration")
_OF_DEPLOYMENT = (*_FIELDS, "status.replicas", "status.updatedReplicas", "status.availableReplicas")
_OF_DAEMON_SET = (
    *_FIELDS,
    "status.desiredNumberScheduled",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
)

TRIGGERS = Triggers(
    name="provider_report",
    profiles=profiles.PROVIDERS,
    primary_kinds=tuple(kind.resource for kind in KINDS),
    watches=(
        Watch(DEPLOYMENT, key=phases.owning_provider, fields=_OF_DEPLOYMENT, selector=PROVIDER_LABEL),
        Watch(DAEMON_SET, key=phases.owning_provider, fields=_OF_DAEMON_SET, selector=PROVIDER_LABEL),
    ),
    subscriptions=(Subscription(phases.event_type(phases.INSTALLED), phases.provider_key),),
    rules=(
        Rule(GROUP, tuple(kind.resource.plural for kind in KINDS), ("get",)),
        *(Rule(kind.group, (kind.plural,), ("get", "list")) for kind in (DEPLOYMENT, DAEMON_SET)),
        Rule(ENDPOINT_SLICE.group, (ENDPOINT_SLICE.plural,), ("list",)),
        Rule("admissionregistration.k8s.io", ("*",), ("get",)),
    ),
)
