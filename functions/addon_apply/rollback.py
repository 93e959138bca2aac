"""Back to the manifests that were applied before, for as long as an annotation asks for it."""

from __future__ import annotations

from dataclasses import replace

from shared.addons import manifest_history
from shared.addons.context import Rollback
from shared.api.names import ROLLBACK_ANNOTATION
from shared.applier import inventory
from shared.applier.outcome import RolloutOutcome
from shared.runtime import Decision

from . import parts
from .status import AddonStatus
from .waits import BROKEN_RETRY, finalizer, waiting


def apply(builder: AddonStatus, case: Rollback) -> Decision:
    kept = case.kept
    if kept.problem:
        message = f"going back from {builder.release}: {kept.problem}"
        builder.set_false("HelmChartApplied", "RollbackFailed", message, "Error", event_type="Warning")
        return waiting(builder, BROKEN_RETRY, message)
    plan = inventory.plan(kept.objects, case.known, resumed=case.resumed)
    builder.set_false("HelmChartApplied", "RollingBack", f"going back to {kept.class_name}")
    begin = parts.begin(builder, case, plan)
    rollout = parts.rollout(case, plan, kept.objects)
    return Decision((*finalizer(case.addon), *begin, rollout, *parts.advance(case)))


def applied(builder: AddonStatus, case: Rollback, decision: Decision, outcome: RolloutOutcome) -> Decision:
    message = (
        f"rolled back to {case.kept.class_name} {case.kept.version}; remove annotation {ROLLBACK_ANNOTATION} "
        "or give the Cluster another class to go on"
    )
    builder.set_false("HelmChartApplied", manifest_history.ROLLED_BACK, message, "Warning", event_type="Warning")
    builder.remove("ObjectsReady", "ClusterStackReleaseDownloaded")
    status = builder.status(ready=False, resources=inventory.dump(outcome.entries), stages=None)
    return replace(decision, status=status, kubernetes_events=tuple(builder.kubernetes_events), message=message)
