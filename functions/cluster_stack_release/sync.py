"""Plans the sync of a release's objects; the inventory is written before the sync starts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from shared.api.conditions import counted
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.connection import ClusterConnection
from shared.applier.desired import kinds_defined_by
from shared.applier.policy import Policy
from shared.applier.sync import Sync
from shared.effects import Effect, write_ahead
from shared.kube import Object, key_of
from shared.manifests import Identity
from shared.runtime import Decision

from .conditions import APPLIED, FAILURE_RETRY, PARTIAL_RETRY, ReleaseStatusBuilder, decide_failure, finalizer_effects
from .ownership import release_inventory
from .rendering import RenderedClass


def decide_sync(
    builder: ReleaseStatusBuilder,
    rendered: RenderedClass,
    management: ClusterConnection,
    kubernetes: str,
    claimed: Collection[Identity],
    policy: Policy,
) -> Decision:
    """Decides to apply the chart's objects and to prune those that it no longer contains, except the `claimed` ones."""
    fields: Object = {"kubernetesVersion": kubernetes}
    if rendered.problem:
        retry = PARTIAL_RETRY if rendered.unknown_kinds else FAILURE_RETRY
        return decide_failure(
            builder, APPLIED, "FailedToApplyObjects", rendered.problem, requeue_after=retry, fields=fields
        )
    objects, known = rendered.objects, release_inventory(builder.obj)
    plan = inventory.plan(objects, known, resumed=False)
    plan = replace(plan, prune=tuple(entry for entry in plan.prune if entry.identity not in claimed))
    if problem := inventory.why_too_large(plan):
        return decide_failure(builder, APPLIED, "TooManyObjects", problem, fields=fields)
    effects: list[Effect] = list(finalizer_effects(builder))
    if {step.entry.identity for step in plan.steps} - {entry.identity for entry in known}:
        message = f"applying {counted(len(objects), 'object')} of {key_of(builder.obj).name}"
        builder.set_false(APPLIED, "ObjectsApplyingOngoing", message, "Warning")
        status = builder.status(resources=inventory.dump(inventory.intent(plan)), **fields)
        effects += write_ahead(CLUSTER_STACK_RELEASE, builder.obj, status)
    effects.append(Sync(management.cluster, plan, {**management.served, **kinds_defined_by(objects)}, policy))
    return Decision(tuple(effects))
