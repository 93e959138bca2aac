"""Plans which objects to write now, and what to record before and after.

Webhook configurations are applied last, and only once their backends run: a webhook without a backend blocks every
request that it is registered for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared.api import provider as provider_api
from shared.api.conditions import rfc3339
from shared.applier import inventory
from shared.applier.inventory import KEPT, Plan
from shared.applier.policy import Policy
from shared.components.webhooks import WEBHOOK_KINDS
from shared.effects import Effect, Patch, write_ahead
from shared.kube import Object, dig
from shared.providers.status import PROVIDER_INSTALLED, ProviderStatusBuilder

from .observe import Observed


def plan(
    observed: Observed, policy: Policy, wanted: Sequence[Object], builder: ProviderStatusBuilder
) -> tuple[Plan, bool]:
    """Returns the rollout to carry out now, and whether it is complete: webhook configurations may follow later."""
    known, resumed = observed.inventory, observed.resumed
    whole = inventory.plan(wanted, known, resumed=resumed)
    if not policy.wait or not any(step.action == "apply" and step.obj["kind"] in WEBHOOK_KINDS for step in whole.steps):
        return whole, True
    early = [obj for obj in wanted if obj["kind"] not in WEBHOOK_KINDS]
    first = inventory.plan(early, known, resumed=resumed, prune=False)
    done = resumed and all(step.action == "keep" and not step.entry.waiting for step in first.steps)
    overdue = resumed and _waited(observed, builder.now) > policy.wait_timeout
    return (whole, True) if done or overdue else (first, False)


def _waited(observed: Observed, now: datetime) -> float:
    """Returns the seconds since this rollout began."""
    begun = dig(observed.provider, "status.target.begun")
    return (now - datetime.fromisoformat(begun)).total_seconds() if begun else 0.0


def record_intent(
    builder: ProviderStatusBuilder, observed: Observed, provider: Object, due: Plan, whole: bool
) -> Sequence[Effect]:
    """Returns the effect that records the intended inventory first, so that a crash leaves no unrecorded object."""
    stays = {entry.identity for entry in observed.inventory if entry.status == KEPT}
    goes = {entry.identity for entry in due.prune} - stays
    if (whole or observed.resumed) and not due.count("apply") and not goes:
        return ()
    reason, what = "Installing", provider_api.spec_version(provider)
    if observed.upgrades:
        reason, what = "Upgrading", f"from {provider_api.installed_version(provider)} to {what}"
    message = f"{reason.lower()} {what}: {len(due.steps)} objects"
    builder.set_false(PROVIDER_INSTALLED, reason, message, event_type="" if observed.resumed else "Normal")
    resources = inventory.dump(inventory.intent(due))
    target = {**dig(provider, "status.target", {}), "inputs": observed.digest}
    if not observed.resumed:
        target["begun"] = rfc3339(builder.now)
    status = builder.status(resources=resources, target=target)
    return write_ahead(provider_api.kind_of(provider).resource, provider, status)


def record_hash(provider: Object, digest: str) -> list[Effect]:
    """Returns the effect that records the hash of the installed inputs; executed once all before it have succeeded."""
    if dig(provider, ("metadata", "annotations", provider_api.HASH_ANNOTATION)) == digest:
        return []
    patch: Object = {"metadata": {"annotations": {provider_api.HASH_ANNOTATION: digest}}}
    return [Patch(provider_api.kind_of(provider).resource, provider, patch)]
