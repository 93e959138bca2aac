"""`provider plan`: new rights, removed parts of CRDs, marked objects, exit codes, text output."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cli.terminal import provider_plan_text as plan_text
from infra.operations.providers.crd_changes import removals, without_descriptions
from infra.operations.providers.ownership_marks import is_only_marked
from infra.operations.providers.plan import ProviderPlan
from infra.operations.providers.rights import new_rights
from shared.applier.apply import FieldConflict
from shared.applier.diff import FieldDiff, compare
from shared.applier.inventory import InventoryEntry
from shared.applier.preview import Change
from shared.kube import Key, Object


def role(*rules: Object, kind: str = "ClusterRole", name: str = "manager", namespace: str = "") -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Object:
    named = {"resourceNames": names.split(",")} if names else {}
    return {"verbs": verbs.split(","), "resources": resources.split(","), "apiGroups": groups.split(","), **named}


def binding(role: str, kind: str = "ClusterRoleBinding", namespace: str = "") -> Object:
    subject = {"kind": "ServiceAccount", "name": "manager", "namespace": "x"}
    reference = {"kind": "ClusterRole", "name": role}
    metadata = {"name": "b", "namespace": namespace}
    return {"kind": kind, "metadata": metadata, "roleRef": reference, "subjects": [subject]}


READS = rule("get,list", "secrets")

RIGHTS: list[tuple[list[Object], list[Object], list[str]]] = [
    ([], [], []),
    ([role(READS)], [role(READS)], []),
    ([role(READS)], [role(rule("get", "secrets"))], []),
    ([role(READS)], [role(rule("get,delete,create", "secrets"))], ["cluster-wide: create, delete secrets"]),
    (
        [role(READS)],
        [role(READS, rule("get", "machines", "a.io,b.io"))],
        [
            "cluster-wide: get machines.a.io",
            "cluster-wide: get machines.b.io",
        ],
    ),
    ([role(rule("*", "*", "*"))], [role(rule("get", "pods"))], []),
    ([role(rule("get", "pods"))], [role(rule("*", "*", "*"))], ["cluster-wide: * *.*"]),
    ([role(rule("get", "secrets", names="a"))], [role(rule("get", "secrets"))], ["cluster-wide: get secrets"]),
    ([role(READS)], [role(rule("get", "secrets", names="a"))], []),
    ([role()], [role(rule("get", "secrets", names="a"))], ["cluster-wide: get secrets called a"]),
    # Under another name, or split over several roles, they are the same rights.
    ([role(READS, name="old")], [role(rule("get", "secrets")), role(rule("list", "secrets"), name="new")], []),
    # From a namespace to the cluster; and the other way around.
    ([role(READS, kind="Role", namespace="x")], [role(READS)], ["cluster-wide: get, list secrets"]),
    ([role(READS)], [role(READS, kind="Role", namespace="x")], []),
    ([role()], [role(READS, kind="Role", namespace="x")], ["in namespace x: get, list secrets"]),
    # Roles of others.
    ([], [role(name="mine"), binding("mine")], []),
    (
        [],
        [binding("cluster-admin")],
        ["cluster-wide: all rights of ClusterRole cluster-admin called for ServiceAccount manager"],
    ),
    ([binding("cluster-admin")], [binding("cluster-admin")], []),
    ([], [{**role(), "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}], ["cluster-wide: get /metrics"]),
    ([{**role(), "rules": None}], [{**role(), "rules": None}], []),
]


@pytest.mark.parametrize(("before", "after", "lines"), RIGHTS)
def test_new_rights_are_listed(before: list[Object], after: list[Object], lines: list[str]) -> None:
    assert new_rights(before, after) == lines


def test_comparison_of_rights_is_limited() -> None:
    """A role can grant any number of rights."""
    many = ",".join(f"r{number}" for number in range(1000))
    lines = new_rights([], [role(rule(many, many, many))])
    assert lines[-1] == "rights after the first 20000 were not compared"


def crd(*versions: Object) -> Object:
    return {"kind": "CustomResourceDefinition", "metadata": {"name": "a"}, "spec": {"versions": list(versions)}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([{"name": "v1"}], [{"name": "v1"}], []),
        ([{"name": "v1"}], [{"name": "v1"}, {"name": "v2"}], []),
        ([{"name": "v1"}, {"name": "v2"}], [{"name": "v2"}], ["a.x.io: v1 is removed"]),
        (
            [{"name": "v1", "served": True}, {"name": "v2"}],
            [{"name": "v1", "served": False}, {"name": "v2"}],
            ["a.x.io: v1 is no longer served"],
        ),
        ([{"name": "v1", "served": False}], [{"name": "v1", "served": True}], []),
    ],
)
def test_removed_and_unserved_versions_are_listed(old: list[Any], new: list[Any], expected: list[str]) -> None:
    entry = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "a.x.io")
    changes = [Change(entry, "update", compare(crd(*old), crd(*new)))]
    assert list(removals(changes)) == expected


def schema(**properties: Any) -> Object:
    spec = {"type": "object", "properties": properties}
    return {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("old", "new", "gone", "expected"),
    [
        (schema(a=TEXT, b=TEXT), schema(a=TEXT), ["a.x.io: v1 no longer has spec.b"], ["v1: spec.b"]),
        (schema(a=TEXT), schema(a=TEXT, b=TEXT), [], ["v1: spec.b"]),
        (schema(a=TEXT), schema(a={**TEXT, "description": "x"}), [], []),
        (schema(description=TEXT), schema(), ["a.x.io: v1 no longer has spec.description"], ["v1: spec.description"]),
        (schema(a=TEXT), schema(a={**TEXT, "maxLength": 1}), [], ["v1: spec.a.maxLength"]),
        (
            schema(items={"type": "array", "items": {"properties": {"b": TEXT, "c": TEXT}}}),
            schema(items={"type": "array", "items": {"properties": {"b": TEXT}}}),
            ["a.x.io: v1 no longer has spec.items.c"],
            ["v1: spec.items.c"],
        ),
    ],
)
def test_removed_schema_fields_are_listed(old: Object, new: Object, gone: list[str], expected: list[str]) -> None:
    entry = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "a.x.io")
    change = Change(entry, "update", compare(crd(old), crd(new)))
    assert list(removals([change])) == gone
    assert [field.path for field in without_descriptions(change).fields] == expected
    assert without_descriptions(change).reason == ("" if expected else "changed descriptions: 1")


def test_generator_version_is_left_out() -> None:
    entry = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "a.x.io")
    field = FieldDiff("metadata.annotations.controller-gen.kubebuilder.io/version", "v0.20.0", "v0.21.0")
    assert without_descriptions(Change(entry, "update", (field,))).fields == ()


def outlook(**fields: Any) -> ProviderPlan:
    return ProviderPlan("CoreProvider", Key("capi-system", "cluster-api"), "v1.0.0", "v1.1.0", **fields)


ENTRY = InventoryEntry("", "v1", "Service", "x", "y")


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (outlook(), 0),
        (outlook(changes=(Change(ENTRY, "unchanged"), Change(ENTRY, "keep"))), 0),
        (outlook(changes=(Change(ENTRY, "update"),)), 3),
        (outlook(changes=(Change(ENTRY, "update"), Change(ENTRY, "refuse"))), 4),
        (outlook(obstacle="no"), 4),
    ],
)
def test_exit_code_depends_on_changes_and_obstacles(made: ProviderPlan, code: int) -> None:
    assert made.exit_code == code


def test_text_output_shows_source_notes_and_changes() -> None:
    made = outlook(
        source="https://[x]/y",
        contract="v1beta2",
        notes=("one\x1b[31m",),
        dropped=("a: v1 is removed",),
        widened=("cluster-wide: get [pods]",),
        changes=(Change(ENTRY, "create"), Change(ENTRY, "unchanged")),
    )
    head, source, note, crd_line, right, change, total = plan_text.lines(made)
    assert head == "[bold]CoreProvider capi-system/cluster-api[/bold]  v1.0.0 -> v1.1.0"
    assert "contract v1beta2" in source
    assert "\x1b" not in note
    assert "a: v1 is removed" in crd_line
    assert right.endswith("get \\[pods]")
    assert "create" in change
    assert "1 to create, 1 unchanged" in total
    assert list(plan_text.lines(outlook(obstacle="no")))[-1].endswith("no")


# -- marks, and notes about versions -------------------------------------------------------------------------------

INSTANCE = "metadata.labels.clusterstack.x-k8s.io/instance"


@pytest.mark.parametrize(
    ("fields", "only"),
    [
        ((FieldDiff(INSTANCE, new="owned"), FieldDiff("metadata.ownerReferences", new=[{}])), True),
        ((FieldDiff("metadata.ownerReferences[0].uid", "a", "b"),), True),
        ((FieldDiff('webhooks[name="a.b"].clientConfig.caBundle', new="x"),), True),
        ((FieldDiff("webhooks[0].clientConfig.caBundle", "x", "y"), FieldDiff("spec.caBundle", new="x")), True),
        ((FieldDiff("spec.conversion.webhook.clientConfig.caBundle", new="x"),), True),
        ((FieldDiff("metadata.annotations.cert-manager.io/inject-ca-from", "a/b"),), True),
        ((FieldDiff("metadata.labels", new={"clusterstack.x-k8s.io/instance": "owned"}),), True),
        ((FieldDiff("metadata.labels", new={"clusterstack.x-k8s.io/instance": "owned", "a": "b"}),), False),
        ((FieldDiff("metadata.labels", old={"a": "b"}),), False),
        ((FieldDiff(INSTANCE, new="owned"), FieldDiff("spec.replicas", 1, 2)), False),
        ((FieldDiff("metadata.labels.a", new="owned"),), False),
        ((FieldDiff("spec.webhook.clientConfig.caBundle", "x", "y"),), False),
        ((), False),
    ],
    ids=str,
)
def test_changes_of_marks_only_are_recognized(fields: tuple[FieldDiff, ...], only: bool) -> None:
    assert is_only_marked(Change(ENTRY, "update", fields)) is only
    assert not is_only_marked(Change(ENTRY, "create", fields))
    assert is_only_marked(Change(ENTRY, "update", fields, (FieldConflict("other", "spec"),))) is only


def test_marked_objects_are_summed_up_in_one_line() -> None:
    mark = FieldDiff(INSTANCE, new="owned")
    both = Change(ENTRY, "update", (mark, FieldDiff("spec.replicas", 1, 2)))
    made = outlook(changes=(Change(ENTRY, "update", (mark,)), Change(ENTRY, "update", (mark,)), both))
    text = "\n".join(plan_text.lines(made))
    assert "2 objects: only labels, owner references" in text
    assert "spec.replicas: 1 -> 2" in text
    assert INSTANCE not in text
    assert "3 to update" in text
    assert made.dump()["summary"]["marked"] == 2
    assert [change.get("marked", False) for change in made.dump()["changes"]] == [True, True, False]
    assert made.exit_code == 3
