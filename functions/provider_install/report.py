"""What is said once the rollout has happened, or how far it came."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.conditions import rfc3339
from shared.applier import inventory
from shared.applier.outcome import RolloutIncomplete, RolloutOutcome, format_waiting
from shared.applier.policy import PREFIX
from shared.applier.rollout import Rollout
from shared.components.webhooks import ASKING
from shared.effects import Results
from shared.kube import Object, dig
from shared.providers import phases
from shared.providers.status import PROVIDER_INSTALLED, PROVIDER_UPGRADED, ProviderStatusBuilder
from shared.providers.storage_migration import NoCommonVersion
from shared.runtime import Decision

from .observe import Observed
from .serving import renew_at

# Seconds until the next look.
BACKEND_RETRY = 15.0
"""A workload that runs starts it at once, by way of `provider_report`; this is for events that get lost."""
PARTIAL_RETRY = 20.0


def report(
    observed: Observed, decision: Decision, results: Results, now: datetime, *, resync: bool = False
) -> Decision:
    provider = observed.provider
    rollout = next((effect for effect in decision.effects if isinstance(effect, Rollout)), None)
    if provider is None or rollout is None:
        return decision
    builder = ProviderStatusBuilder(provider, now, kubernetes_events=list(decision.kubernetes_events))
    error = results.error
    if isinstance(error, RolloutIncomplete):
        results.error = None
        _tell_taken(builder, error.outcome)
        return _failed(decision, builder, observed, str(error), resources=inventory.dump(error.outcome.entries))
    if isinstance(error, NoCommonVersion):
        results.error = None
        return _failed(decision, builder, observed, str(error))
    outcome = next((value for value in results.values if isinstance(value, RolloutOutcome)), None)
    if outcome is None or error is not None:
        return decision
    _tell_taken(builder, outcome)
    if _is_whole(observed, rollout):
        return _installed(builder, observed, provider, outcome, resync=resync)
    if not outcome.not_ready:
        # The conditions are as the intent has left them: under way.
        status = {"resources": inventory.dump(outcome.entries)}
        return replace(decision, status=status, kubernetes_events=tuple(builder.kubernetes_events), proceed=True)
    message = f'its webhooks wait for {format_waiting(outcome.not_ready)}; annotation {PREFIX}wait: "false" ends that'
    builder.set_false(PROVIDER_INSTALLED, "WaitingForBackends", message)
    status = builder.status(resources=inventory.dump(outcome.entries))
    return replace(
        decision,
        status=status,
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=BACKEND_RETRY,
        message=message,
    )


def _tell_taken(builder: ProviderStatusBuilder, outcome: RolloutOutcome) -> None:
    if outcome.adopted:
        more = f"; and {len(outcome.adopted) - 5} more" if len(outcome.adopted) > 5 else ""
        told = f"these were there before, and are this provider's now: {'; '.join(outcome.adopted[:5])}{more}"
        builder.add_event("ObjectsTakenOver", told, "Warning")


def _is_whole(observed: Observed, rollout: Rollout) -> bool:
    wanted = [] if isinstance(observed.rendered, Exception) else observed.rendered
    late = any(obj["kind"] in ASKING for obj in wanted)
    return not late or any(step.obj["kind"] in ASKING for step in rollout.plan.steps)


def _failed(
    decision: Decision, builder: ProviderStatusBuilder, observed: Observed, message: str, **fields: object
) -> Decision:
    if observed.upgrades:
        provider = observed.provider or {}
        installed, wanted = provider_api.installed_version(provider), provider_api.spec_version(provider)
        message = f"from {installed} to {wanted}: {message}"
        builder.set_false(PROVIDER_UPGRADED, "ComponentsUpgradeError", message, event_type="Warning")
    builder.set_false(PROVIDER_INSTALLED, "InstallFailed", message, event_type="Warning")
    status, kubernetes_events = builder.status(**fields), tuple(builder.kubernetes_events)
    return replace(
        decision, status=status, kubernetes_events=kubernetes_events, requeue_after=PARTIAL_RETRY, message=message
    )


def _installed(
    builder: ProviderStatusBuilder, observed: Observed, provider: Object, outcome: RolloutOutcome, *, resync: bool
) -> Decision:
    version = provider_api.spec_version(provider)
    message = f"{version}: {len(outcome.written)} objects written, {len(outcome.pruned)} removed"
    builder.set_true(PROVIDER_INSTALLED, "ProviderInstalled", "Provider is installed", event_type="Normal")
    if observed.upgrades:
        builder.set_true(PROVIDER_UPGRADED, "ProviderUpgraded", f"Upgraded to {version}", event_type="Normal")
    elif not builder.is_true(PROVIDER_UPGRADED):
        builder.remove(PROVIDER_UPGRADED)  # of an upgrade that is not asked for any more
    renewal = renew_at(observed)
    target = {**dig(provider, "status.target", {}), "inputs": observed.digest}
    target["renewAt"] = rfc3339(renewal) if renewal else None
    status = builder.status(
        installedVersion=version,
        contract=observed.fetched.contract if observed.fetched else None,
        observedGeneration=dig(provider, "metadata.generation"),
        resources=inventory.dump(outcome.entries),
        target=target,
    )
    step = phases.next_step(phases.INSTALLED, provider, resync=resync)
    return Decision(status=status, kubernetes_events=tuple(builder.kubernetes_events), reply=step, message=message)
