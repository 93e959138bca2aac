"""Removes the addons, for as long as the annotation of the Cluster requests it. The history of releases stays."""

from __future__ import annotations

from shared.addons.context import RemovalContext
from shared.addons.status import REMOVED
from shared.api.conditions import abridged, counted
from shared.api.names import REMOVE_ANNOTATION
from shared.applier import inventory
from shared.applier.outcome import SyncOutcome
from shared.kube import dig
from shared.releases.missing_assets import DOWNLOADED
from shared.runtime import Decision

from .status import AddonStatusBuilder
from .sync import record_applied, record_intent, sync_effect

_SHOWN = 5


def remove(builder: AddonStatusBuilder, context: RemovalContext) -> Decision:
    """Prunes everything that was applied."""
    plan = inventory.plan((), context.inventory, resumed=context.resumed)
    message = f"removing {counted(len(plan.prune), 'object')}"
    builder.set_false("HelmChartApplied", "RemovingAddons", message, event_type="Normal")
    intent = record_intent(builder, context, plan)
    sync = sync_effect(context, plan, ())
    return Decision((*builder.finalizer(), *intent, sync, *record_applied(context)))


def report_removed(builder: AddonStatusBuilder, outcome: SyncOutcome) -> Decision:
    """Reports that the removal is complete, and which objects stay."""
    stay = ""
    if outcome.kept:
        stay = f"; these stay, since they are to be kept or not ours: {abridged([*map(str, outcome.kept)], _SHOWN)}"
    cluster = dig(builder.obj, "spec.clusterRef.name", "")
    message = (
        f"the addons are removed{stay}; `capi-functions addons remove {cluster} --undo`, which removes annotation "
        f"{REMOVE_ANNOTATION} of the Cluster, applies them again"
    )
    builder.set_false("HelmChartApplied", REMOVED, message, "Warning", event_type="Normal")
    builder.remove("ObjectsReady", DOWNLOADED)
    resources = inventory.dump(outcome.entries)
    return builder.decision(message=message, ready=False, resources=resources, stages=None, drift=None)
