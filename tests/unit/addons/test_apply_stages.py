"""Decisions and reports of `addon_apply` for releases with stages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.addon_apply.decide import decide
from shared import charts, sandbox
from shared.addons.context import ReleaseContext
from shared.addons.target import AFTER, BEFORE, DONE, WORKING
from shared.api.conditions import rfc3339
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import entry_of
from shared.applier.outcome import SyncOutcome
from shared.applier.sync import Sync
from shared.effects import Patch
from shared.releases.stages import AFTER_CONTROL_PLANE_INITIALIZED, Stage, StageCondition, Stages
from shared.runtime import Decision
from tests.support.addon_cases import (
    EXISTS,
    NOW,
    a_release,
    an_addon,
    assets,
    condition,
    decided,
    entry_of_a,
    refuses_too_many,
    reported,
    seen,
    sync,
)
from tests.support.releases import config_map


def staged(stage: Stage, phase: str = "", *, since: float = 0, **more: Any) -> ReleaseContext:
    """Returns the context of a release with this stage only, which is in `phase` since so many seconds."""
    content = assets(Stages({AFTER_CONTROL_PLANE_INITIALIZED: (stage,)}), **{stage.name: [config_map("a")]})
    found = a_release(content=content)
    began = rfc3339(NOW - timedelta(seconds=since))
    recorded = [{"name": stage.name, "action": stage.action, "phase": phase, "since": began}] if phase else []
    return a_release(an_addon(stages=recorded, digest=found.target.digest), content, **more)


def phase(decision: Decision) -> str:
    [stage] = (decision.status or {})["stages"]
    return str(stage["phase"])


@pytest.mark.parametrize(
    ("bound", "since", "reason", "words"),
    [
        ({"a": None}, 0, "FailedToEvaluatePreCondition", "ConfigMap default/a does not exist"),
        ({"a": config_map("a", "2")}, 0, "FailedToEvaluatePreCondition", "waiting until a.data.k == '1'"),
        ({"a": config_map("a", "2")}, 601, "PreConditionOverdue", "the timeout of the stage (600 s) has passed"),
        (ConnectionFailed("no answer"), 601, "FailedToEvaluatePreCondition", "no answer"),
    ],
)
def test_stage_waits_for_its_condition(bound: Any, since: float, reason: str, words: str) -> None:
    decision = decided(staged(Stage("net", before=EXISTS), BEFORE, since=since, condition_objects=bound))
    status, found, message = condition(decision, "EvaluatedCEL")
    assert (status, found, decision.requeue_after, phase(decision)) == ("False", reason, 20.0, BEFORE)
    assert words in message


def test_stage_with_a_true_condition_is_applied() -> None:
    other = entry_of_a(name="b")
    decision = decided(
        staged(Stage("net", before=EXISTS), BEFORE, condition_objects={"a": config_map("a")}, inventory=[other])
    )
    intent = decision.effects[0]
    assert isinstance(intent, Patch)
    assert [stage["phase"] for stage in intent.patch["status"]["stages"]] == [WORKING]
    plan = sync(decision).plan
    assert ([step.entry.stage for step in plan.steps], plan.prune, plan.rest) == (["net"], (), (other,))
    assert decision.context["stage"] == "net"


def test_stage_that_deletes_leaves_other_objects() -> None:
    other = entry_of_a(name="b")
    plan = sync(decided(staged(Stage("net", "delete"), inventory=[entry_of_a(), other]))).plan
    assert (plan.steps, [entry.name for entry in plan.prune], plan.rest) == ((), ["a"], (other,))


@pytest.mark.parametrize(("after", "expected"), [(EXISTS, AFTER), (None, DONE)])
def test_applied_stage_is_reported_and_moves_to_its_next_phase(after: StageCondition | None, expected: str) -> None:
    decision = reported(staged(Stage("net", after=after), WORKING), {Sync: SyncOutcome()})
    assert (phase(decision), decision.proceed) == (expected, True)
    assert [event.reason for event in decision.kubernetes_events] == ["StageDone"]


def test_stage_is_done_once_its_condition_afterwards_is_true() -> None:
    decision = decided(staged(Stage("net", after=EXISTS), AFTER, condition_objects={"a": config_map("a")}))
    assert (decision.effects, phase(decision), decision.proceed) == ((), DONE, True)


def test_decision_about_a_stage_renders_and_evaluates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = staged(Stage("net", before=EXISTS), BEFORE, condition_objects={"a": config_map("a")})
    observed = seen(found)
    expected = decide(observed, NOW)
    monkeypatch.setattr(sandbox, "call", None)
    monkeypatch.setattr(charts, "render_addon", None)
    assert decide(observed, NOW) == expected
    with pytest.raises(TypeError):
        seen(found)


def test_rollout_after_all_stages_covers_everything() -> None:
    found = staged(Stage("net"), DONE, inventory=[entry_of_a(name="b")])
    plan = sync(decided(found)).plan
    assert ([step.obj["metadata"]["name"] for step in plan.steps], [one.name for one in plan.prune]) == (["a"], ["b"])


def test_stage_applies_nothing_if_the_inventory_would_not_fit_into_the_status() -> None:
    former = tuple(entry_of(config_map(f"m{number}")) for number in range(7000))
    refuses_too_many(decided(staged(Stage("a"), inventory=former)))
