"""Starts `provider_report` when an installation is complete, and when a workload of a provider changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared import profiles
from shared.api.conditions import is_true
from shared.api.provider import BY_KIND, GROUP, PLURALS, PROVIDER_LABEL, RESOURCES
from shared.api.resources import DAEMON_SET, DEPLOYMENT, ENDPOINT_SLICE
from shared.applier.readiness import unready_reason
from shared.event import Event
from shared.kube import Object, deleting, dig
from shared.providers import phases
from shared.providers.status import COMPONENTS_AVAILABLE, awaits_workloads, in_progress
from shared.triggers import PrimaryRef, Rule, Subscription, Triggers, Watch

_FIELDS = ("metadata.generation", "metadata.deletionTimestamp", "status.observedGeneration")
_OF_DEPLOYMENT = (*_FIELDS, "status.replicas", "status.updatedReplicas", "status.availableReplicas")
_OF_DAEMON_SET = (
    *_FIELDS,
    "status.desiredNumberScheduled",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
)
"""The fields that readiness depends on. An update is only forwarded if the readiness of the workload changes."""


def observed_by_controller(workload: Mapping[str, Any]) -> PrimaryRef | None:
    """Returns the provider of a workload; None for a new workload, whose controller is about to report on it."""
    return phases.owning_provider(workload) if dig(workload, "status.observedGeneration") else None


def is_ready(workload: Mapping[str, Any]) -> bool:
    """Returns whether the workload is ready."""
    return not unready_reason(dict(workload))


def is_reconciled(provider: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the provider's status already reflects the event's workload.

    A change of the provider itself does not start this function.
    """
    if event.kind in BY_KIND:
        return event.change is not None
    if event.object is None or event.change == "delete":
        return False
    if in_progress(provider) or awaits_workloads(provider):
        return not is_ready(event.object)
    available = is_true(dig(provider, "status.conditions"), COMPONENTS_AVAILABLE)
    return deleting(provider) or (available and is_ready(event.object))


TRIGGERS = Triggers(
    name="provider_report",
    profiles=profiles.PROVIDERS,
    primary_kinds=RESOURCES,
    watches=tuple(
        Watch(resource, key=observed_by_controller, fields=fields, digest=is_ready, selector=PROVIDER_LABEL)
        for resource, fields in ((DEPLOYMENT, _OF_DEPLOYMENT), (DAEMON_SET, _OF_DAEMON_SET))
    ),
    subscriptions=(Subscription(phases.event_type(phases.INSTALLED)),),
    is_reconciled=is_reconciled,
    rules=(
        Rule(GROUP, PLURALS, ("get",)),
        *(Rule(kind.group, (kind.plural,), ("get", "list")) for kind in (DEPLOYMENT, DAEMON_SET)),
        Rule(ENDPOINT_SLICE.group, (ENDPOINT_SLICE.plural,), ("list",)),
        Rule("admissionregistration.k8s.io", ("*",), ("get",)),
    ),
)
