"""Rolls back to the manifests that were applied before, for as long as the rollback annotation is set."""

from __future__ import annotations

from shared.addons.context import RollbackContext
from shared.addons.status import ROLLED_BACK
from shared.api.names import ROLLBACK_ANNOTATION
from shared.applier import inventory
from shared.applier.outcome import SyncOutcome
from shared.releases.missing_assets import DOWNLOADED
from shared.runtime import Decision

from .status import BROKEN_RETRY, AddonStatusBuilder
from .sync import record_applied, record_intent, sync_effect, too_large


def roll_back(builder: AddonStatusBuilder, context: RollbackContext) -> Decision:
    """Applies the stored manifest; without one, waits for a person to choose another class."""
    manifest = context.manifest
    if manifest.problem:
        message = f"rolling back from {builder.release}: {manifest.problem}"
        builder.set_false("HelmChartApplied", "RollbackFailed", message, "Error", event_type="Warning")
        return builder.wait(BROKEN_RETRY, message)
    plan = inventory.plan(manifest.objects, context.inventory, resumed=context.resumed, operations={"": "rollback"})
    if problem := inventory.why_too_large(plan):
        return too_large(builder, context, problem)
    builder.set_false("HelmChartApplied", "RollingBack", f"rolling back to {manifest.class_name}")
    intent = record_intent(builder, context, plan)
    sync = sync_effect(context, plan, manifest.objects)
    return Decision((*builder.finalizer(), *intent, sync, *record_applied(context)))


def report_rolled_back(builder: AddonStatusBuilder, context: RollbackContext, outcome: SyncOutcome) -> Decision:
    """Reports a complete rollback. The addon is not ready, because its Cluster still refers to the rejected class."""
    message = (
        f"rolled back to {context.manifest.class_name} (addons {context.manifest.version}); "
        f"remove annotation {ROLLBACK_ANNOTATION} or give the Cluster another class to go on"
    )
    builder.set_false("HelmChartApplied", ROLLED_BACK, message, "Warning", event_type="Warning")
    builder.remove("ObjectsReady", DOWNLOADED)
    return builder.decision(message=message, ready=False, resources=inventory.dump(outcome.entries), stages=None)
