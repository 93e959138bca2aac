"""Comparison and classification of planned changes, and the text of `plan`."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.cli.terminal import plan_text
from infra.operations.addons import plan as planning
from infra.operations.addons.release_plan import ReleasePlan, StagePlan
from infra.operations.failure import Failure
from infra.operations.memory_overlay import MemoryOverlay
from infra.operations.text import age, duration, plain, value
from shared.addons.owner import OWNER
from shared.applier.apply import ApplyResult, FieldConflict
from shared.applier.diff import ABSENT, REDACTED, FieldDiff, compare
from shared.applier.inventory import InventoryEntry
from shared.applier.policy import Policy
from shared.applier.preview import Change, classify, keep_reason, totals
from shared.kube import Key, Object
from shared.releases.stages import Stage, StageCondition


def obj(kind: str = "ConfigMap", **content: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "uid": "1"}, **content}


# -- fields --------------------------------------------------------------------------------------------------------

DIFFERENCES: list[tuple[Any, Any, list[FieldDiff]]] = [
    ({}, {}, []),
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 2}, [FieldDiff("spec.a", 1, 2)]),
    ({"a": 1}, {"a": True}, [FieldDiff("spec.a", 1, True)]),
    ({"a": 1}, {}, [FieldDiff("spec.a", 1, ABSENT)]),
    ({}, {"a": None}, [FieldDiff("spec.a", ABSENT, None)]),
    ({"a": {"b": 1, "c": 1}}, {"a": {"b": 1, "c": 2}}, [FieldDiff("spec.a.c", 1, 2)]),
    ({"a": {"b": 1}}, {"a": [1]}, [FieldDiff("spec.a", {"b": 1}, [1])]),
    ({"a": [1, 2]}, {"a": [1, 3]}, [FieldDiff("spec.a", [1, 2], [1, 3])]),
    (
        {"c": [{"name": "x", "image": "1"}, {"name": "y"}]},
        {"c": [{"name": "x", "image": "2"}, {"name": "z"}]},
        [
            FieldDiff('spec.c[name="x"].image', "1", "2"),
            FieldDiff('spec.c[name="y"]', {"name": "y"}, ABSENT),
            FieldDiff('spec.c[name="z"]', ABSENT, {"name": "z"}),
        ],
    ),
    (
        {"c": [{"name": "x"}, {"name": "y"}]},
        {"c": [{"name": "y"}, {"name": "x"}]},
        [FieldDiff("spec.c", [{"name": "x"}, {"name": "y"}], [{"name": "y"}, {"name": "x"}])],
    ),
    ({"p": [{"port": 1}, {"port": 2}]}, {"p": [{"port": 1}, {"port": 3}]}, [FieldDiff("spec.p[1].port", 2, 3)]),
    ({"p": [{"port": 1}]}, {"p": []}, [FieldDiff("spec.p", [{"port": 1}], [])]),
    (
        {"c": [{"name": "x"}, {"name": "x"}]},
        {"c": [{"name": "x"}]},
        [FieldDiff("spec.c", [{"name": "x"}, {"name": "x"}], [{"name": "x"}])],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), DIFFERENCES)
def test_compare_returns_changed_fields(old: Any, new: Any, expected: list[FieldDiff]) -> None:
    assert list(compare(obj(spec=old), obj(spec=new))) == expected


def test_compare_ignores_server_bookkeeping() -> None:
    mine = {"name": "a", "uid": "1", "resourceVersion": "1", "generation": 1, "managedFields": []}
    theirs = {"name": "a", "uid": "1", "resourceVersion": "2", "generation": 2, "managedFields": [{"time": "1"}]}
    assert compare(obj(metadata=mine, status={"a": 1}), obj(metadata=theirs, status={"a": 2})) == ()
    labelled = compare(obj(metadata=mine), obj(metadata={**theirs, "labels": {"a.b/c": "1"}}))
    assert labelled == (FieldDiff("metadata.labels", ABSENT, {"a.b/c": "1"}),)


def test_compare_of_a_partial_object_ignores_other_fields() -> None:
    assert compare(obj(spec={"a": 1, "defaulted": 2}), obj(spec={"a": 2}), whole=False) == (FieldDiff("spec.a", 1, 2),)


ASKED = {
    "f:spec": {
        "f:type": {},
        "f:atomic": {},
        "f:selector": {".": {}, "f:a": {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
    }
}
LIVE = {"type": "A", "address": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "1"}}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param({"type": "B", "address": "10.0.0.2"}, ["spec.type"], id="an address that is allocated"),
        pytest.param({"address": ABSENT, "policy": "x"}, [], id="fields without a manager"),
        pytest.param({"ports": [{"port": 80, "protocol": "TCP", "nodePort": 3}]}, [], id="in an item of a list"),
        pytest.param({"ports": [{"port": 81, "protocol": "TCP"}]}, ["spec.ports[0].port"], id="a field of an item"),
        pytest.param({"selector": {"a": "2", "b": "2"}}, ["spec.selector.a"], id="in a mapping"),
        pytest.param({"selector": ABSENT}, ["spec.selector"], id="a removed mapping"),
        pytest.param({"atomic": {"a": {"b": 1}}}, ["spec.atomic"], id="an atomic field"),
    ],
)
def test_compare_ignores_fields_without_a_manager(other: dict[str, Any], expected: list[str]) -> None:
    managed = {"name": "a", "managedFields": [{"manager": "any", "fieldsV1": ASKED}]}
    spec = {name: value for name, value in {**LIVE, **other}.items() if value is not ABSENT}
    fields = compare(obj(metadata=managed, spec=LIVE), obj(metadata=managed, spec=spec))
    assert [field.path for field in fields] == expected


def test_compare_ignores_null_and_defaulted_fields_of_a_partial_object() -> None:
    live = obj(spec={"ports": [{"port": 1, "protocol": "TCP"}], "named": [{"name": "a", "defaulted": 1}]})
    desired = obj(spec={"ports": [{"port": 1}], "named": [{"name": "a"}], "time": None})
    assert compare(live, desired, whole=False) == ()


def test_compare_redacts_secret_values() -> None:
    old, new = obj("Secret", data={"a": "MQ==", "b": "Mg=="}), obj("Secret", data={"a": "Mw==", "c": "NA=="})
    fields = compare(old, new)
    assert fields == (
        FieldDiff("data.a", REDACTED, REDACTED),
        FieldDiff("data.b", REDACTED, ABSENT),
        FieldDiff("data.c", ABSENT, REDACTED),
    )
    assert [field.dump() for field in fields] == [
        {"path": f"data.{name}", "withheld": True} for name in ("a", "b", "c")
    ]
    custom = {"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {}}
    assert compare({**custom, "a": 1}, {**custom, "a": 2}) == (FieldDiff("a", 1, 2),)


# -- objects -------------------------------------------------------------------------------------------------------

NEW = InventoryEntry("", "v1", "ConfigMap", "ns", "a")
OURS = InventoryEntry("", "v1", "ConfigMap", "ns", "a", uid="1", hash="x")
UNSEEN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}}
HELD = (FieldConflict("hpa", ".data.k"),)
CHANGED = (FieldDiff("data.k", "1", "2"),)

JUDGEMENTS: list[tuple[InventoryEntry, Object | None, ApplyResult, str, str, tuple[FieldDiff, ...], str]] = [
    (NEW, None, ApplyResult(obj()), "force", "create", (), ""),
    (NEW, None, ApplyResult(UNSEEN), "force", "create", (), ""),
    (OURS, None, ApplyResult(obj()), "force", "create", (), "missing"),
    (OURS, None, ApplyResult(UNSEEN), "force", "update", (), "not served yet"),
    (OURS, obj(), ApplyResult(obj()), "force", "unchanged", (), ""),
    (OURS, obj(data={"k": "1"}), ApplyResult(obj(data={"k": "2"})), "force", "update", CHANGED, ""),
    (OURS, obj(data={"k": "1", "d": "3"}), ApplyResult(UNSEEN), "force", "recreate", CHANGED, "immutable"),
    (
        NEW,
        obj(data={"k": "1"}),
        ApplyResult(obj(data={"k": "2"}), HELD),
        "force",
        "update",
        CHANGED,
        "conflicts: force",
    ),
    (NEW, obj(data={"k": "1"}), ApplyResult(obj(data={"k": "2"}), HELD), "fail", "refuse", CHANGED, "conflicts: fail"),
    (NEW, obj(), ApplyResult(obj(), HELD), "yield", "unchanged", (), "conflicts: yield"),
]


@pytest.mark.parametrize(("entry", "live", "applied", "conflicts", "action", "fields", "reason"), JUDGEMENTS)
def test_dry_run_is_classified_as_a_change(
    entry: InventoryEntry,
    live: Object | None,
    applied: ApplyResult,
    conflicts: str,
    action: str,
    fields: tuple[FieldDiff, ...],
    reason: str,
) -> None:
    change = classify(entry, live, applied, Policy(OWNER, conflicts=conflicts))
    assert (change.action, change.fields, change.conflicts) == (action, fields, applied.conflicts)
    assert reason in change.reason
    assert bool(reason) == bool(change.reason)


LABEL = {"clusterstack.x-k8s.io/instance": "owned"}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"uid": "1", "labels": LABEL, "annotations": {"helm.sh/resource-policy": "keep"}}, "resource-policy: keep"),
        ({"uid": "1"}, "label of its owner"),
        ({"uid": "2", "labels": LABEL}, "recreated by another owner"),
        ({"uid": "1", "labels": LABEL}, "changed since it was read"),
    ],
)
def test_keep_reason_names_annotation_label_or_uid(metadata: Object, reason: str) -> None:
    assert reason in keep_reason(OURS, obj(metadata=metadata), OWNER)


# -- the text of a plan --------------------------------------------------------------------------------------------


def forecast(*changes: Change, stage: Stage | None = None, notes: tuple[str, ...] = ()) -> ReleasePlan:
    part = StagePlan(stage or Stage(""), changes)
    return ReleasePlan(Key("ns", "demo"), "x-y-1-36-v1", "x-y-1-36-v2", "v2", "v1.36.3", "", notes, (part,))


@pytest.mark.parametrize(
    ("actions", "code"),
    [
        ([], 0),
        (["unchanged", "keep"], 0),
        (["unchanged", "create"], 3),
        (["delete"], 3),
        (["recreate"], 3),
        (["create", "refuse"], 4),
        (["unknown"], 4),
    ],
)
def test_exit_code_depends_on_the_changes(actions: list[Any], code: int) -> None:
    assert forecast(*[Change(OURS, action) for action in actions]).exit_code == code


def test_totals_count_objects_by_action() -> None:
    counts = totals([Change(OURS, "update", conflicts=HELD), Change(OURS, "update"), Change(OURS, "keep")])
    assert {name: count for name, count in counts.items() if count} == {"update": 2, "keep": 1, "conflicts": 1}


def test_plan_text_lists_changes_fields_and_conflicts() -> None:
    stage = Stage("cni", before=StageCondition("net.ready"))
    changes = (
        Change(OURS, "update", CHANGED, HELD, "why"),
        Change(OURS, "unchanged"),
        Change(
            OURS,
            "update",
            (FieldDiff("data.l", ABSENT, [1]), FieldDiff("data.m", 2, ABSENT), FieldDiff("data", REDACTED)),
        ),
    )
    text = "\n".join(plan_text.lines(forecast(*changes, stage=stage, notes=("[b]paused[/b]",))))
    for words in (
        "x-y-1-36-v1 -> x-y-1-36-v2",
        "\\[b]paused",
        "waits before it until net.ready",
        "ConfigMap ns/a (why)",
        'data.k: "1" -> "2"',
        "conflict: .data.k is held by hpa",
        "data.l: + [1]",
        "data.m: - 2",
        "data: (a Secret's: not shown)",
        "2 to update, 1 unchanged, 1 with conflicts",
    ):
        assert words in text, text
    assert text.count("ConfigMap ns/a") == 2


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ("", "x-y-1-36-v1", "nothing -> x-y-1-36-v1"),
        ("x-y-1-36-v1", "x-y-1-36-v1", "x-y-1-36-v1"),
        ("x-y-1-36-v0-sha-abc", "x-y-1-36-v0-sha.abc", "x-y-1-36-v0-sha.abc"),
        ("x-y-1-36-v0-sha-abc", "x-y-1-36-v0-sha.abd", "x-y-1-36-v0-sha-abc -> x-y-1-36-v0-sha.abd"),
    ],
)
def test_plan_text_names_the_releases_once_if_equal(present: str, wanted: str, expected: str) -> None:
    line = next(plan_text.lines(replace(forecast(), present_class=present, target_class=wanted)))
    assert line == f"[bold]Cluster ns/demo[/bold]  {expected}"


@pytest.mark.parametrize(("actions", "warned"), [(["unknown", "delete"], True), (["delete"], False), ([], False)])
def test_plan_text_warns_of_unknown_kinds(actions: list[Any], warned: bool) -> None:
    lines = list(plan_text.lines(forecast(*[Change(OURS, action) for action in actions])))
    assert ("nothing would be applied or deleted" in lines[-1]) is warned


def test_plain_text_has_no_escape_sequences() -> None:
    assert plain("a\x1b[31mb\n c\u202e") == "a\\x1b[31mb c\\x202e"
    assert value({"k": "\x1b[2J\n"}) == '{"k": "\\u001b[2J\\n"}'
    assert plain("x" * 600).endswith("x…")


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "0s"), (0, "0s"), (59, "59s"), (192, "3m12s"), (15000, "4h10m"), (529200, "6d3h")]
)
def test_duration_is_formatted_briefly(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_age_of_an_invalid_time_is_empty() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:00Z", now) == "1m0s"
    assert [age(since, now) for since in (None, "", "soon", 7, "2026-01-01T00:00:00")] == [""] * 5


# -- a store for one command ---------------------------------------------------------------------------------------


def test_scratch_store_reads_through_and_keeps_writes_in_memory() -> None:
    behind = MemoryOverlay()
    behind.put("a/1", b"1", if_absent=False)
    behind.put("a/2", b"2", if_absent=False)
    scratch = MemoryOverlay(behind)
    assert scratch.get("a/1") == b"1"
    assert scratch.put("a/1", b"x", if_absent=True) is False
    assert scratch.put("a/1", b"x", if_absent=False) is True
    assert scratch.put("a/3", b"3", if_absent=True) is True
    scratch.delete("a/2")
    assert (scratch.get("a/1"), scratch.get("a/2"), scratch.exists("a/2")) == (b"x", None, False)
    assert scratch.list("a/") == ["a/1", "a/3"]
    assert behind.list("a/") == ["a/1", "a/2"]
    assert behind.get("a/1") == b"1"


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("./nope", "--release ./nope: this folder does not exist"),
        ("./wrong", "--release ./wrong: the folder of a release is named like its tag: invalid release name 'wrong'"),
        ("nope", "--release nope: neither a folder nor a tag: invalid release name 'nope'"),
    ],
)
def test_release_that_cannot_be_found_is_named_with_the_reason(
    release: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong").mkdir()
    with pytest.raises(Failure, match=f"^{re.escape(message)}"):
        planning.release_name(release, {})
