"""The inventory, plans from it, and desired objects."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shared.addons.owner import OWNER
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.resources import CONFIG_MAP, NAMESPACE, SECRET
from shared.applier.desired import MANAGEMENT, UnknownKinds, desired, kinds_defined_by
from shared.applier.inventory import (
    KEPT,
    SYNCED,
    InventoryEntry,
    content_hash,
    deletion,
    digest,
    dump,
    entry_of,
    intent,
    load,
    plan,
    why_too_large,
)
from shared.kube import Object, Resource
from shared.manifests import Operation, identity, is_hook_run


def config_map(name: str, value: str = "1", namespace: str = "kube-system") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"k": value},
    }


def applied(obj: Object, **changes: str) -> InventoryEntry:
    return replace(entry_of(obj), **{"uid": "u", "hash": content_hash(obj), "status": SYNCED, **changes})


A, B, B2, C = config_map("a"), config_map("b"), config_map("b", "2"), config_map("c")


def hook(hooks: str, kind: str = "ConfigMap", **annotations: str) -> Object:
    given = {"helm.sh/hook": hooks, **{f"helm.sh/hook-{name}": value for name, value in annotations.items()}}
    metadata = {"name": "h", "namespace": "kube-system", "annotations": given}
    return {"apiVersion": "batch/v1" if kind == "Job" else "v1", "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("operation", "obj", "held", "resumed", "expected"),
    [
        ("install", hook("pre-upgrade", "Job"), False, False, ""),
        ("install", hook("pre-install", "Job"), False, False, "apply"),
        ("upgrade", hook("pre-install", "Job"), True, False, "left"),
        ("upgrade", hook("pre-install", "Job"), False, False, ""),
        ("upgrade", hook("pre-upgrade", "Job"), True, False, "apply"),
        ("upgrade", hook("pre-upgrade", "Job"), True, True, "keep"),
        ("check", hook("pre-upgrade,post-install", "Job"), True, False, "left"),
        ("check", hook("pre-upgrade,post-install", "Job"), False, False, ""),
        ("rollback", hook("pre-upgrade", "Job"), False, False, ""),
        ("upgrade", hook("pre-install"), True, False, "verify"),
        ("upgrade", hook("pre-install"), False, False, ""),
        ("check", hook("pre-install"), True, False, "verify"),
        ("rollback", hook("pre-install"), False, False, "apply"),
        ("upgrade", hook("crd-install"), False, False, "apply"),
        ("check", hook("pre-upgrade", **{"delete-policy": "hook-succeeded"}), True, False, "left"),
        ("upgrade", hook("pre-upgrade", **{"delete-policy": "hook-succeeded"}), True, False, "apply"),
        ("upgrade", hook("pre-upgrade", **{"delete-policy": "before-hook-creation"}), True, False, "verify"),
        ("upgrade", hook("pre-upgrade", "Namespace", **{"delete-policy": "hook-succeeded"}), True, False, "verify"),
        (None, hook("pre-upgrade", "Job"), False, False, "apply"),
        (None, hook("pre-upgrade", "Job"), True, False, "verify"),
    ],
)
def test_plan_applies_hooks_in_their_operations(
    operation: Operation | None, obj: Object, held: bool, resumed: bool, expected: str
) -> None:
    """A hook of another operation is `left` as it is, or not created; it is never pruned."""
    entries = [applied(obj)] if held else []
    planned = plan([obj], entries, resumed=resumed, operations={"": operation} if operation else None)
    actions = [*(step.action for step in planned.steps), *("left" for _ in planned.rest)]
    assert (actions, planned.prune) == ([expected] if expected else [], ())
    run = operation is not None and is_hook_run(obj)
    assert all(step.run is run for step in planned.steps if step.action == "apply")


@pytest.mark.parametrize(
    ("objects", "inventory", "resumed", "apply", "verify", "keep", "prune"),
    [
        pytest.param([A, B], [], False, "ab", "", "", "", id="first"),
        pytest.param([A, B2], [applied(A), applied(B)], False, "b", "a", "", "", id="unchanged content is verified"),
        pytest.param([A, B], [applied(A), entry_of(B)], True, "b", "", "a", "", id="resumed: synced entries are kept"),
        pytest.param([A, B2], [applied(A), applied(B)], True, "b", "", "a", "", id="content differs"),
        pytest.param(
            [A],
            [applied(A, status="not-synced")],
            True,
            "",
            "a",
            "",
            "",
            id="resumed: entries that are not synced are verified",
        ),
        pytest.param([A], [applied(A), applied(B)], False, "", "a", "", "b", id="dropped objects are pruned"),
        pytest.param(
            [A], [applied(A), entry_of(B)], True, "", "", "a", "b", id="entries that failed to apply are pruned too"
        ),
        pytest.param([], [applied(A), applied(C)], False, "", "", "", "ac", id="empty release"),
        pytest.param(
            [{**A, "apiVersion": "v2"}],
            [applied(A)],
            False,
            "a",
            "",
            "",
            "",
            id="apiVersion is not part of the identity",
        ),
    ],
)
def test_plan_applies_verifies_keeps_or_prunes(
    objects: list[Object],
    inventory: list[InventoryEntry],
    resumed: bool,
    apply: str,
    verify: str,
    keep: str,
    prune: str,
) -> None:
    result = plan(objects, inventory, resumed=resumed)
    for action, names in (("apply", apply), ("verify", verify), ("keep", keep)):
        assert "".join(step.entry.name for step in result.steps if step.action == action) == names
    assert "".join(entry.name for entry in result.prune) == prune
    assert result.rest == ()


@pytest.mark.parametrize(
    ("entry", "new"),
    [
        pytest.param(None, True, id="no entry"),
        pytest.param(entry_of(B), True, id="intent only"),
        pytest.param(applied(B), False, id="applied"),
        pytest.param(applied(B, uid=""), False, id="applied, and possibly recreated since"),
        pytest.param(applied(B, status=KEPT), True, id="kept for another owner"),
    ],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_object_without_an_applied_entry_is_new(entry: InventoryEntry | None, *, new: bool, resumed: bool) -> None:
    [step] = plan([B2], [entry] if entry else [], resumed=resumed).steps
    assert (step.action, step.new) == ("apply", new)


def test_kept_object_stays_kept_until_desired_again() -> None:
    kept = applied(B, status=KEPT, error="kept: others need it")
    assert plan([A], [kept], resumed=False).prune == (kept,)
    assert [step.action for step in plan([B], [kept], resumed=False).steps] == ["verify"]


def test_plan_of_a_stage_leaves_other_entries() -> None:
    result = plan([A], [applied(B)], resumed=False, stages={identity(A): "cni"}, prune=False)
    assert [(step.entry.name, step.entry.stage) for step in result.steps] == [("a", "cni")]
    assert result.prune == ()
    assert [entry.name for entry in result.rest] == ["b"]


def test_same_name_with_another_kind_is_another_object() -> None:
    service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": A["metadata"]}
    result = plan([service], [applied(A)], resumed=True)
    assert [(step.entry.kind, step.action) for step in result.steps] == [("Service", "apply")]
    assert [entry.kind for entry in result.prune] == ["ConfigMap"]


def test_intent_keeps_uid_and_errors() -> None:
    failed = replace(applied(C), error="not pruned: 500", status="not-synced")
    result = plan([A, B2], [applied(B), failed], resumed=False)
    written = {entry.name: entry for entry in intent(result)}
    assert written["a"].uid == ""
    assert (written["b"].uid, written["b"].status, written["b"].hash) == ("u", "not-synced", "")
    assert written["c"] == failed


def test_new_rollout_resets_entries_outside_the_stage() -> None:
    for plan_ in (plan([A], [applied(B)], resumed=False, prune=False), deletion([A], [applied(B)], resumed=False)):
        assert [(entry.name, entry.status, entry.hash) for entry in plan_.rest] == [
            ("b", "not-synced", content_hash(B))
        ]
    assert deletion([A], [applied(A)], resumed=True).prune == (applied(A),)


def test_new_rollout_resets_synced_entries() -> None:
    """Otherwise a later stage would keep objects of an earlier sync without reading them."""
    result = plan([A], [applied(A), applied(B)], resumed=False, prune=False)
    assert {entry.status for entry in intent(result)} == {"not-synced"}
    assert {entry.hash for entry in intent(result)} == {content_hash(A), content_hash(B)}
    again = plan([A], [applied(A), applied(B)], resumed=True, prune=False)
    assert {entry.status for entry in intent(again)} == {"synced"}


def test_entries_survive_dump_and_load() -> None:
    entries = [applied(A), replace(entry_of(B), error="no")]
    assert load([entry.dump() for entry in entries]) == entries


@pytest.mark.parametrize("garbage", [None, "x", [None], [{"kind": "ConfigMap"}], [{"name": "x"}], {}])
def test_load_skips_items_that_are_not_entries(garbage: object) -> None:
    assert load(garbage) == []


def test_digest_depends_on_all_inputs_and_their_order() -> None:
    assert digest("a", "b") == digest("a", "b")
    assert len({digest("a", "b"), digest("a", "c"), digest("ab"), digest("b", "a")}) == 4


SERVED = {
    ("v1", "ConfigMap"): CONFIG_MAP,
    ("v1", "Namespace"): NAMESPACE,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    ),
}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
    },
}


def test_desired_objects_have_a_namespace_by_scope_and_our_label() -> None:
    stray: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "stray"}}
    bare: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"mine": "1"}}}
    first, second, third = desired([stray, bare, A], SERVED, OWNER, default_namespace="kube-system")
    assert "namespace" not in first["metadata"]
    assert second["metadata"]["namespace"] == "kube-system"
    assert second["metadata"]["labels"] == {"mine": "1", "clusterstack.x-k8s.io/instance": "owned"}
    assert third["metadata"]["namespace"] == "kube-system"
    assert "labels" not in A["metadata"]


def test_kinds_defined_by_a_crd_of_the_chart_are_known() -> None:
    widget: Object = {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "stray"}}
    assert [obj["kind"] for obj in desired([widget, CRD], SERVED, OWNER, default_namespace="d")] == [
        "Widget",
        "CustomResourceDefinition",
    ]
    assert list(kinds_defined_by([CRD])) == [("x.io/v1", "Widget")]


def test_unknown_kinds_are_named_in_the_error() -> None:
    gadget: Object = {"apiVersion": "x.io/v0", "kind": "Widget", "metadata": {"name": "w"}}
    with pytest.raises(UnknownKinds, match=r"the workload cluster does not serve Widget \(x.io/v0\)"):
        desired([gadget, CRD], SERVED, OWNER, default_namespace="d")
    with pytest.raises(UnknownKinds, match="the management cluster does not serve Widget"):
        desired([gadget, CRD], SERVED, OWNER, default_namespace="d", where=MANAGEMENT)


def test_string_data_of_a_secret_becomes_data() -> None:
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "eA==", "b": "eA=="},
        "stringData": {"b": "y"},
    }
    served = {("v1", "Secret"): SECRET}
    [applied_] = desired([secret], served, OWNER, default_namespace="d")
    assert applied_["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in applied_
    # A value that is not text is left for the API server to reject.
    [wrong] = desired([secret | {"stringData": {"pin": 1}}], served, OWNER, default_namespace="d")
    assert wrong["stringData"] == {"pin": 1}


def test_errors_of_many_entries_are_shortened_to_fit_into_a_status() -> None:
    """An API server accepts objects of 1.5 MiB; the first errors are written in full."""
    name = "capx-some-rather-usual-role-binding-{:05d}"
    group, error = "rbac.authorization.k8s.io", "x" * 600
    applied = InventoryEntry(group, "v1", "ClusterRoleBinding", "", "", "0" * 36, "0" * 16, "synced")
    entries = [replace(applied, name=name.format(number), error=error, revision="1" * 10) for number in range(4_000)]
    dumped = dump(entries)
    assert [entry["error"] for entry in dumped[:20]] == [error] * 20
    assert len(json.dumps(dumped)) < 1.4 * 2**20
    assert [entry.identity for entry in load(dumped)] == [entry.identity for entry in entries]


@pytest.mark.parametrize(
    ("entry", "api_version", "text"),
    [
        (InventoryEntry("apps", "v1", "Deployment", "ns", "a"), "apps/v1", "Deployment ns/a"),
        (InventoryEntry("", "v1", "Namespace", "", "a"), "v1", "Namespace a"),
    ],
    ids=["with group and namespace", "without"],
)
def test_entry_names_its_object(entry: InventoryEntry, api_version: str, text: str) -> None:
    assert (entry.api_version, str(entry)) == (api_version, text)


def test_plan_counts_steps_and_knows_all_identities() -> None:
    found = plan([A, B2, C], [applied(A), applied(B), applied(config_map("d"))], resumed=True)
    assert [found.count("apply"), found.count("verify"), found.count("keep")] == [2, 0, 1]
    assert found.identities == {identity(each) for each in (A, B, C, config_map("d"))}


@pytest.mark.parametrize(
    ("labels", "owned"),
    [({OWNED_LABEL: OWNED}, True), ({OWNED_LABEL: "other"}, False), ({"a": OWNED}, False), (None, False)],
    ids=["our label", "another value", "another label", "none"],
)
def test_object_is_ours_by_its_labels(labels: dict[str, str] | None, owned: bool) -> None:
    assert OWNER.has_labels({"metadata": {"name": "a", "labels": labels}}) is owned


@pytest.mark.parametrize("field", ["error", "waiting"])
def test_texts_of_a_workload_server_leave_the_status_below_the_limit_of_an_object(field: str) -> None:
    entries = [InventoryEntry("", "v1", "ConfigMap", "n", f"m{n}", **{field: "x" * 2**20}) for n in range(2000)]
    assert len(json.dumps(dump(entries))) < 2**19


# -- the size of an inventory ----------------------------------------------------------------------------------

ETCD_LIMIT = 1_572_864


def many(count: int, prefix: str = "m") -> list[Object]:
    return [config_map(f"{prefix}{number:05}") for number in range(count)]


def test_inventory_that_fits_is_planned_whatever_its_size() -> None:
    assert why_too_large(plan(many(4500), [], resumed=False)) == ""


def test_inventory_that_does_not_fit_names_its_objects_the_limit_and_the_way_out() -> None:
    problem = why_too_large(plan(many(8000), [], resumed=False))
    assert problem.startswith("the inventory of 8000 objects is too large: it has ")
    assert "may have 1150000 bytes, about 5" in problem
    assert "divide the chart" in problem


def test_objects_to_prune_count() -> None:
    """Until they are pruned, the inventory has the objects of both releases."""
    former = [applied(obj) for obj in many(3000, "old")]
    assert why_too_large(plan(many(3000, "old"), former, resumed=False)) == ""
    problem = why_too_large(plan(many(3000, "new"), former, resumed=False))
    assert "6000 objects (3000 objects of earlier rollouts included)" in problem
    assert "first upgrade to a release without the objects that would be pruned" in problem


@pytest.mark.parametrize("text", ["x" * 5000, "<" * 5000, "ä" * 5000])
def test_largest_planned_inventory_is_stored_even_if_each_object_fails(text: str) -> None:
    """etcd stores what Go's encoder writes, which escapes `<` with six bytes."""
    problem = why_too_large(plan(many(6000), [], resumed=False))
    count = int(problem.partition(" bytes, about ")[2].partition(" ")[0])
    assert why_too_large(plan(many(count), [], resumed=False)) == ""
    failed = [
        applied(obj, uid="u" * 36, hash="h" * 16, stored="s" * 16, revision="9" * 10, status="not-synced", error=text)
        for obj in many(count)
    ]
    written = json.dumps(dump(failed), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    assert len(written.encode()) < ETCD_LIMIT - 40_000, "the rest of a status"
