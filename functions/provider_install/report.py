"""Reports the result of the sync: installed, waiting for webhook backends, or failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.api import provider as provider_api
from shared.api.conditions import abridged, rfc3339
from shared.api.resources import DAEMON_SET, DEPLOYMENT
from shared.applier import inventory
from shared.applier.inventory import InventoryEntry
from shared.applier.outcome import SyncIncomplete, SyncOutcome, format_waiting
from shared.applier.policy import PREFIX
from shared.applier.sync import Sync
from shared.components.webhooks import WEBHOOK_KINDS
from shared.effects import Results
from shared.kube import Object, dig
from shared.providers import phases
from shared.providers.reconciled import object_hash
from shared.providers.status import COMPONENTS_AVAILABLE, PROVIDER_INSTALLED, PROVIDER_UPGRADED, ProviderStatusBuilder
from shared.providers.storage_migration import NoCommonVersion
from shared.runtime import Decision

from .certificates import next_renewal
from .observe import Observed

BACKEND_RETRY = 15.0
"""Seconds until webhook backends are checked again, in case the event of a workload (`provider_report`) is lost."""
WORKLOAD_RETRY = 15.0
"""Seconds until workloads are checked without an event. Events may be lost, and some workloads never become ready."""
PARTIAL_RETRY = 20.0
"""Seconds until a failed sync is repeated."""


def report(observed: Observed, decision: Decision, results: Results, now: datetime) -> Decision:
    """Returns the decision with the status that reports its sync, if it has one; reports no other failure."""
    provider, error, outcomes = observed.provider, results.error, results.of(Sync)
    if provider is None or not (error or outcomes):
        return decision
    builder = ProviderStatusBuilder(provider, now, kubernetes_events=list(decision.kubernetes_events))
    if error is not None:
        return _report_failure(builder, observed, decision, error)
    outcome = outcomes[-1]
    sync = next(effect for effect in decision.effects if isinstance(effect, Sync))
    _add_event_of_adopted(builder, outcome)
    if _is_complete(observed, sync):
        return _installed(builder, observed, provider, outcome)
    if not outcome.not_ready:
        # The next round applies the webhooks. The conditions stay as they were written before the sync: in progress.
        status = {"resources": inventory.dump(outcome.entries)}
        return replace(decision, status=status, kubernetes_events=tuple(builder.kubernetes_events), proceed=True)
    waiting = format_waiting(outcome.not_ready)
    message = f'webhooks are applied once their backends run: {waiting}; annotation {PREFIX}wait: "false" skips this'
    builder.set_false(PROVIDER_INSTALLED, "WaitingForBackends", message)
    return builder.decision(requeue_after=BACKEND_RETRY, message=message, resources=inventory.dump(outcome.entries))


def _report_failure(
    builder: ProviderStatusBuilder, observed: Observed, decision: Decision, error: Exception
) -> Decision:
    """Reports a sync in which objects failed, or that has no version in common with the stored objects."""
    match error:
        case SyncIncomplete():
            _add_event_of_adopted(builder, error.outcome)
            failed = _failed(builder, observed, str(error), resources=inventory.dump(error.outcome.entries))
        case NoCommonVersion():
            failed = _failed(builder, observed, str(error))
        case _:
            return decision
    return replace(failed, reports=error)


def _add_event_of_adopted(builder: ProviderStatusBuilder, outcome: SyncOutcome) -> None:
    if outcome.adopted:
        message = f"these existing objects now belong to the provider: {abridged(outcome.adopted, 5)}"
        builder.add_event("ObjectsTakenOver", message, "Warning")


def _is_complete(observed: Observed, sync: Sync) -> bool:
    """Returns whether the sync includes the webhook configurations, or the provider has none."""
    objects = [] if isinstance(observed.rendered, Exception) else observed.rendered
    late = any(obj["kind"] in WEBHOOK_KINDS for obj in objects)
    return not late or any(step.obj["kind"] in WEBHOOK_KINDS for step in sync.plan.steps)


def _is_workload(entry: InventoryEntry) -> bool:
    """Returns whether events of the object start `provider_report`."""
    return (entry.group, entry.kind) in ((kind.group, kind.kind) for kind in (DEPLOYMENT, DAEMON_SET))


def _failed(builder: ProviderStatusBuilder, observed: Observed, message: str, **fields: Any) -> Decision:
    if observed.upgrades:
        provider = observed.provider or {}
        installed, requested = provider_api.installed_version(provider), provider_api.spec_version(provider)
        message = f"from {installed} to {requested}: {message}"
        builder.set_false(PROVIDER_UPGRADED, "ComponentsUpgradeError", message, event_type="Warning")
    builder.set_false(PROVIDER_INSTALLED, "InstallFailed", message, event_type="Warning")
    return builder.decision(requeue_after=PARTIAL_RETRY, message=message, **fields)


def _installed(builder: ProviderStatusBuilder, observed: Observed, provider: Object, outcome: SyncOutcome) -> Decision:
    version = provider_api.spec_version(provider)
    message = f"{version}: {outcome.summary}"
    builder.set_true(PROVIDER_INSTALLED, "ProviderInstalled", "Provider is installed", event_type="Normal")
    if observed.upgrades:
        builder.set_true(PROVIDER_UPGRADED, "ProviderUpgraded", f"Upgraded to {version}", event_type="Normal")
    elif not builder.is_true(PROVIDER_UPGRADED):
        builder.remove(PROVIDER_UPGRADED)  # the condition is about an upgrade that the spec no longer requests
    renewal = next_renewal(observed.requests, observed.serving_secrets)
    target = {**dig(provider, "status.target", {}), "inputs": observed.digest}
    target |= {"object": object_hash(provider), "renewAt": rfc3339(renewal) if renewal else None}
    checked = phases.completion_event(phases.INSTALLED, provider, resync=observed.resync)
    # The event of the workload that becomes ready starts `provider_report` earlier than repeated checks would.
    waiting = [] if observed.resumed else [entry for entry in outcome.not_ready if _is_workload(entry)]
    if waiting and builder.is_true(COMPONENTS_AVAILABLE):
        builder.set(COMPONENTS_AVAILABLE, "Unknown", "WaitingForWorkloads", format_waiting(waiting))
    return builder.decision(
        reply=None if waiting else checked,
        requeue_after=WORKLOAD_RETRY if waiting else None,
        message=message,
        installedVersion=version,
        contract=observed.components.contract if observed.components else None,
        observedGeneration=dig(provider, "metadata.generation"),
        resources=inventory.dump(outcome.entries),
        target=target,
    )
