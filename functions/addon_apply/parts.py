"""The parts of every rollout of addons: the intent before it, the rollout, and the record of what is applied then."""

from __future__ import annotations

from collections.abc import Sequence

from shared.addons.context import Case, Release
from shared.api.resources import CLUSTER_ADDON
from shared.applier import inventory
from shared.applier.desired import kinds_defined_by
from shared.applier.inventory import Plan
from shared.applier.rollout import Rollout
from shared.effects import Effect, Patch, would_change, write_ahead
from shared.kube import Object, dig
from shared.runtime import Decision

from .status import AddonStatus
from .waits import finalizer

STAGE_ANNOTATION = "ClusterAddonStage"


def begin(status: AddonStatus, case: Case, plan: Plan) -> tuple[Effect, ...]:
    """The intent, written before anything is applied, so that no crash can orphan an object."""
    intent = status.status(
        ready=False,
        resources=inventory.dump(inventory.intent(plan)),
        digest=case.goal.digest,
        kubernetesVersion=case.goal.told or None,
        stages=case.way.dump() or None,
    )
    return write_ahead(CLUSTER_ADDON, case.addon, intent)


def unchanged(status: AddonStatus, case: Release) -> Decision:
    """The addons of this release are those of the one before, which are applied and ready."""
    status.set_true("HelmChartApplied")
    if case.policy.wait:
        status.set_true("ObjectsReady")
    effects = (*finalizer(case.addon), *advance(case))
    fields = {"ready": True, "digest": case.goal.digest}
    return Decision(effects, status.status(**fields), message="addons unchanged")


def rollout(case: Case, plan: Plan, objects: Sequence[Object], *, only_report: bool = False) -> Rollout:
    resources = {**case.reach.served, **kinds_defined_by(objects)}
    return Rollout(case.reach.cluster, plan, resources, case.policy, only_report)


def advance(case: Case) -> tuple[Effect, ...]:
    """Records what is applied now, where users of cluster stacks look for it."""
    addon, goal = case.addon, case.goal
    before = dig(addon, "spec.clusterStack")
    stage = "upgraded" if before and before != goal.class_name else None
    known = dig(addon, ("metadata", "annotations", STAGE_ANNOTATION))
    spec = {"clusterStack": goal.class_name, "version": goal.version, "hook": ""}
    patch: Object = {"spec": spec, "metadata": {"annotations": {STAGE_ANNOTATION: stage or known or "created"}}}
    return (Patch(CLUSTER_ADDON, addon, patch),) if would_change(addon, patch) else ()
