"""Plans as pages: changes of addons and of the topology, and their limits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from infra.console import plans
from infra.console.pages import _render
from infra.console.plans import Plans, Previews, Wanted
from infra.operations.addons import plan as planning
from infra.operations.addons.release_plan import ReleasePlan, StagePlan
from infra.operations.failure import Failure
from infra.operations.preview import MachineChange, ObjectChange, TopologyPlan
from infra.operations.preview.result import Refusal
from shared.api.resources import CLUSTER
from shared.applier.apply import FieldConflict
from shared.applier.diff import FieldDiff
from shared.applier.inventory import entry_of
from shared.applier.preview import Change
from shared.kube import Client, Key
from shared.kube.credentials import Credentials
from shared.releases.stages import Stage
from tests.support.objects import manifest

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'{{7*7}}\u202e"
DEMO = Key("team", "demo")
SECRET = FieldDiff("data.password", "old-s3cret", "new-s3cret")


def topology(text: str = "a") -> TopologyPlan:
    field = FieldDiff(f"spec.{text}", text, [text])
    changed = ObjectChange("create", "v1", text, text, (field, SECRET), replaces=text)
    machines = MachineChange("replace", text, text, text, 3, (text,), text)
    return TopologyPlan(
        DEMO, text, text, text, text, text, (text,), (text,), (changed,), (machines,), (changed,), Refusal(text, text)
    )


def addons(text: str = "a") -> ReleasePlan:
    entry = entry_of({"apiVersion": "v1", "kind": text, "metadata": {"name": text, "namespace": text}})
    conflict = FieldConflict(text, text)
    changes = (
        Change(entry, "update", (FieldDiff(f"spec.{text}", 1, 2), SECRET), (conflict,), text),
        Change(entry, "delete"),
        Change(entry, "unchanged"),
    )
    return ReleasePlan(DEMO, text, text, text, text, text, (text,), (StagePlan(Stage(text), changes),))


def plan_page(plan: ReleasePlan) -> str:
    wanted = Wanted(plan.target_class, plan.target_class)
    return _render(
        "plan.html",
        root="",
        key=DEMO,
        wanted=wanted,
        present=wanted,
        choices=[plan.target_class],
        plan=plan,
        problem="",
    )


def test_plan_of_addons_shows_changed_objects_only() -> None:
    text = plan_page(addons("Thing"))
    for shown in (
        "1 to update",
        "1 to delete",
        "1 unchanged",
        "Stage Thing",
        "spec.Thing: 1 -&gt; 2",
        "is held by Thing",
    ):
        assert shown in text
    assert text.count("Thing Thing/Thing") == 2


def test_preview_shows_machines_and_objects() -> None:
    text = _render("preview.html", plan=topology("Thing"), problem="")
    for shown in ("3 machines replaced", "instead of Thing", "Refused by Thing", "as Cluster API core Thing"):
        assert shown in text
    assert "no core runs" in _render("preview.html", plan=None, problem="no core runs")


@pytest.mark.parametrize(
    "text", [plan_page(addons(HOSTILE)), _render("preview.html", plan=topology(HOSTILE), problem="")]
)
def test_plans_escape_hostile_text_and_hide_secrets(text: str) -> None:
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "s3cret" not in text


def test_class_of_no_cluster_stack_has_no_plan() -> None:
    client = Client(Credentials("http://127.0.0.1:1"), attempts=1)
    with pytest.raises(Failure, match="does not belong to a cluster stack"):
        Plans().make(client, manifest(CLUSTER, "demo", "team"), Wanted("quick-start"))
    client.close()


def test_few_plans_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Credentials("http://127.0.0.1:1"), attempts=1)
    made, cluster = Plans(), manifest(CLUSTER, "demo", "team")
    depth = 0

    def plan(*_arguments: Any) -> ReleasePlan:
        nonlocal depth
        depth += 1
        return made.make(client, cluster, Wanted())

    monkeypatch.setattr(planning, "plan", plan)
    for _ in range(2):  # the failure of the first frees all
        depth = 0
        with pytest.raises(Failure, match="2 plans are being made"):
            made.make(client, cluster, Wanted())
        assert depth == 2
    client.close()


def test_preview_streams_progress_and_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Credentials("http://127.0.0.1:1"), attempts=1)
    previews = Previews()

    def preview(_client: Client, changes: Any, progress: Any) -> list[TopologyPlan]:
        progress("starting\nthe control plane")
        if changes[DEMO].version == "wrong":
            raise Failure("no such version")
        return [replace(topology(), core=changes[DEMO].class_name)]

    async def events(wanted: Wanted) -> list[str]:
        return [event async for event in previews.stream(client, DEMO, wanted, lambda one: getattr(one, "core", one))]

    monkeypatch.setattr(plans, "preview", preview)
    line = "event: line\ndata: " + json.dumps("starting\nthe control plane") + "\n\n"
    assert asyncio.run(events(Wanted("quick"))) == [line, 'event: result\ndata: "quick"\n\n']
    assert asyncio.run(events(Wanted("", "wrong"))) == [line, 'event: result\ndata: "no such version"\n\n']
    previews._free.acquire()
    [refused] = asyncio.run(events(Wanted()))
    assert "another preview is being made" in refused
    client.close()
