"""Everything that a release wants in one rollout, which also prunes; after stages most of it is there already.

Once it is there the same rollout looks for drift.
"""

from __future__ import annotations

from dataclasses import replace

from shared.addons import manifest_history, rendering
from shared.addons.context import Release
from shared.applier import inventory
from shared.applier.outcome import RolloutOutcome
from shared.effects import Effect, Results
from shared.manifests import identity
from shared.runtime import Decision

from . import parts, readiness
from .status import AddonStatus
from .waits import finalizer


def apply(builder: AddonStatus, case: Release) -> Decision:
    rendered, keep = rendering.of_all(case)
    builder.remove("HelmChartTemplated")  # the charts were rendered
    objects = [obj for _, part in rendered for obj in part]
    stages = {identity(obj): stage for stage, part in rendered for obj in part}
    plan = inventory.plan(objects, case.known, resumed=case.resumed and not case.looking, stages=stages)
    effects: tuple[Effect, ...] = (*finalizer(case.addon), *keep)
    if not case.looking or plan.count("apply") or plan.prune:
        builder.set_false(
            "HelmChartApplied", "ObjectsApplyingOngoing", f"applying {len(objects)} objects of {case.goal.class_name}"
        )
        effects += parts.begin(builder, case, plan)
    effects += (parts.rollout(case, plan, objects, only_report=case.only_report),)
    if not case.looking or plan.count("apply"):
        effects += (manifest_history.Remember(case.addon, case.goal.class_name, objects),)
    return Decision((*effects, *parts.advance(case)))


def applied(
    builder: AddonStatus, case: Release, decision: Decision, results: Results, outcome: RolloutOutcome
) -> Decision:
    goal = case.goal
    builder.set_true("HelmChartApplied")
    message = f"{case}: {len(outcome.written)} objects written, {len(outcome.pruned)} pruned"
    if outcome.written or outcome.pruned or not case.looking:
        builder.add_event("AddonsApplied", message)
    fields: dict[str, object] = {
        "digest": goal.digest,
        "kubernetesVersion": goal.told or None,
        "drift": outcome.listed_drift if case.only_report and outcome.drift else None,
    }
    remembered = next((value for value in results.values if isinstance(value, manifest_history.Remembered)), None)
    if remembered is not None:
        classes = remembered.classes
        fields["history"] = manifest_history.longer(
            case.addon, goal.class_name, goal.version, goal.digest, builder.now, kept=classes
        )
        if remembered.problem:
            builder.add_event("ManifestNotKept", remembered.problem, "Warning")
    return readiness.told(builder, case.policy, replace(decision, message=message), outcome.entries, **fields)
