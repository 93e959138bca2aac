"""Plans which objects to write now, and what to record before and after.

Webhook configurations are applied last, and only once their backends run: a webhook without a backend blocks every
request that it is registered for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.conditions import counted, rfc3339
from shared.applier import inventory
from shared.applier.inventory import KEPT, Plan, entry_of
from shared.applier.policy import Policy
from shared.components.webhooks import WEBHOOK_KINDS
from shared.effects import Effect, write_ahead
from shared.kube import Object, dig
from shared.manifests import identity
from shared.providers.status import PROVIDER_INSTALLED, ProviderStatusBuilder

from .observe import Observed


def plan(
    observed: Observed, policy: Policy, desired: Sequence[Object], builder: ProviderStatusBuilder
) -> tuple[Plan, bool]:
    """Returns the sync to carry out now, and whether it is complete. Webhook configurations may follow later."""
    entries, resumed = observed.inventory, observed.resumed
    complete = inventory.plan(desired, entries, resumed=resumed)
    webhooks_change = any(step.action == "apply" and step.obj["kind"] in WEBHOOK_KINDS for step in complete.steps)
    if not policy.wait or not webhooks_change:
        return complete, True
    others = [obj for obj in desired if obj["kind"] not in WEBHOOK_KINDS]
    listed = {entry.identity for entry in entries}
    webhooks = [entry_of(obj) for obj in desired if obj["kind"] in WEBHOOK_KINDS]
    unlisted = [entry for entry in webhooks if entry.identity not in listed]
    without_webhooks = inventory.plan(others, [*entries, *unlisted], resumed=resumed, prune=False)
    backends_run = resumed and all(step.action == "keep" and not step.entry.waiting for step in without_webhooks.steps)
    overdue = resumed and _seconds_since_begin(observed, builder.now) > policy.wait_timeout
    return (complete, True) if backends_run or overdue else (without_webhooks, False)


def _seconds_since_begin(observed: Observed, now: datetime) -> float:
    """Returns the seconds since this sync began."""
    begun = dig(observed.provider, "status.target.begun")
    return (now - datetime.fromisoformat(begun)).total_seconds() if begun else 0.0


def record_intent(
    builder: ProviderStatusBuilder, observed: Observed, provider: Object, current: Plan, complete: bool
) -> Sequence[Effect]:
    """Returns the effect that records the intended inventory first, so that a crash leaves no unrecorded object."""
    listed = {entry.identity for entry in observed.inventory}
    if observed.resumed and listed.issuperset(identity(step.obj) for step in current.steps):
        return ()  # recorded when this sync began
    kept = {entry.identity for entry in observed.inventory if entry.status == KEPT}
    to_prune = {entry.identity for entry in current.prune} - kept
    if complete and not current.count("apply") and not to_prune:
        return ()
    reason, what = "Installing", provider_api.spec_version(provider)
    if observed.upgrades:
        reason, what = "Upgrading", f"from {provider_api.installed_version(provider)} to {what}"
    message = f"{reason.lower()} {what}: {counted(len(current.steps), 'object')}"
    builder.set_false(PROVIDER_INSTALLED, reason, message)
    resources = inventory.dump(inventory.intent(current))
    target = {**dig(provider, "status.target", {}), "inputs": observed.digest}
    if not observed.resumed:
        target["begun"] = rfc3339(builder.now)
    status = builder.status(resources=resources, target=target)
    return write_ahead(provider_api.kind_of(provider).resource, provider, status)
