"""Decisions of the preview of a topology change."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cli.terminal.topology_plan_text import class_lines
from infra.operations.failure import Failure
from infra.operations.preview import Change, ClassPlan, MachineChange, TopologyPlan, parse_manifests, parse_variable
from infra.operations.preview.change import merge_patch
from infra.operations.preview.class_plan import grouped
from infra.operations.preview.loading import (
    cluster_of_pool,
    generations,
    new_definition,
    new_object,
    new_status,
    new_webhooks,
    node_of,
)
from infra.operations.preview.progress import identify, is_reconciled
from infra.operations.preview.result import Refusal, object_changes
from infra.operations.preview.snapshot import check_version, managers, needed_kinds, refuse_external_patches
from shared.kube import Key, Object

CORE = "cluster.x-k8s.io/v1beta2"


def obj(kind: str, uid: str = "1", *owners: str, **content: Any) -> Object:
    references = [{"uid": owner} for owner in owners]
    metadata = {"name": kind.lower(), "namespace": "a", "uid": uid, "generation": 4, "ownerReferences": references}
    return {"apiVersion": CORE, "kind": kind, "metadata": metadata, **content}


CLUSTER = obj("Cluster", spec={"paused": True, "topology": {"classRef": {"name": "v1"}, "version": "v1.35.0"}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("zone=b", ("zone", "b")), ("n=3", ("n", 3)), ('n="3"', ("n", "3")), ("a=b=c", ("a", "b=c")), ("a=", ("a", ""))],
)
def test_value_of_a_variable_is_json_or_a_string(text: str, expected: tuple[str, object]) -> None:
    assert parse_variable(text) == expected


@pytest.mark.parametrize("text", ["zone", "=b"])
def test_variable_needs_name_and_value(text: str) -> None:
    with pytest.raises(Failure, match="must be NAME=VALUE"):
        parse_variable(text)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(), {}),
        (Change(class_name="v1", version="v1.35.0"), {}),
        (Change(class_name="v2"), {"classRef": {"name": "v2"}}),
        (Change(version="v1.36.0"), {"version": "v1.36.0"}),
        (Change(variables={"a": 1}), {"variables": [{"name": "a", "value": 1}]}),
    ],
)
def test_change_becomes_a_patch_of_the_topology(change: Change, expected: Object) -> None:
    assert change.patch(CLUSTER) == ({"spec": {"topology": expected}} if expected else {})


def test_manifest_removes_fields_of_the_topology_only() -> None:
    text = f"{{apiVersion: {CORE}, kind: Cluster, metadata: {{name: cluster}}, spec: {{topology: {{version: v2}}}}}}"
    change = Change(manifests=parse_manifests(text))
    assert change.patch(CLUSTER) == {"spec": {"topology": {"classRef": None, "version": "v2"}}}
    assert change.classes(CLUSTER) == {Key("a", "v1")}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 1}, {"a": 2}, {"a": 2, "b": None}),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
    ],
)
def test_merge_patch(old: Object, new: Object, patch: Object) -> None:
    assert merge_patch(old, new) == patch


def test_objects_come_after_their_owners_even_in_a_cycle() -> None:
    given = [obj("C", "3", "2"), obj("B", "2", "1", "absent"), obj("A", "1"), obj("X", "8", "9"), obj("Y", "9", "8")]
    found = [[one["kind"] for one in generation] for generation in generations(given)]
    assert found == [["A"], ["B"], ["C"], ["X"], ["Y"]]


def test_copy_has_new_uids_and_machines_are_paused() -> None:
    machine = new_object(obj("Machine", "3", "old"), {"old": "new"})
    assert machine["metadata"]["ownerReferences"] == [{"uid": "new"}]
    assert machine["metadata"]["annotations"] == {"cluster.x-k8s.io/paused": ""}
    assert "uid" not in machine["metadata"]
    assert "paused" not in new_object(CLUSTER, {})["spec"]


def test_status_of_a_copy_is_about_generation_1() -> None:
    conditions = [
        {"type": "TopologyReconciled", "observedGeneration": 4},
        {"type": "Ready", "observedGeneration": 3},
        {"type": "Available", "observedGeneration": 4},
    ]
    assert new_status(obj("Cluster", status={"observedGeneration": 4, "conditions": conditions})) == {
        "observedGeneration": 1,
        "conditions": [{"type": "Ready"}, {"type": "Available", "observedGeneration": 1}],
    }


def test_copy_of_a_definition_has_no_descriptions() -> None:
    text, value = {"type": "string", "description": "long"}, {"description": "a value"}
    properties = {"description": text, "other": {"type": "object", "default": value, "properties": {"a": text}}}
    crd = {**obj("CustomResourceDefinition"), "spec": {"versions": [{"schema": {"properties": properties}}]}}
    assert new_definition(crd)["spec"]["versions"][0]["schema"]["properties"] == {
        "description": {"type": "string"},
        "other": {"type": "object", "default": value, "properties": {"a": {"type": "string"}}},
    }


def test_one_node_stands_for_all_nodes_of_a_pool() -> None:
    spec = {"clusterName": "cluster", "template": {"spec": {"version": "v1.35.0"}}}
    pool = obj("MachinePool", "7", spec=spec, status={"nodeRefs": [{"name": "a"}, {"name": "b"}]})
    assert new_status(pool) == {"nodeRefs": [{"name": "7"}]}
    node = node_of(pool)
    assert node is not None
    assert (node["metadata"], node["status"]) == ({"name": "7"}, {"nodeInfo": {"kubeletVersion": "v1.35.0"}})
    assert node_of({**pool, "status": {}}) is None
    assert cluster_of_pool(pool) == Key("a", "cluster")


@pytest.mark.parametrize(
    "client", [{"url": "https://real.test:9443/validate?x=1"}, {"service": {"name": "s", "path": "/validate"}}]
)
def test_webhooks_of_a_copy_never_call_the_real_server(client: Object) -> None:
    found = new_webhooks(
        obj("ValidatingWebhookConfiguration", webhooks=[{"clientConfig": client}]), "https://here:1", "ca"
    )
    assert found["webhooks"] == [{"clientConfig": {"url": "https://here:1/validate", "caBundle": "ca"}}]


@pytest.mark.parametrize(
    ("message", "by"),
    [
        ('a: admission webhook "x.y" denied the request: no, patch "p"', "webhook x.y"),
        ('failed to apply patches for patch "zones": no', "patch zones"),
        ("no", ""),
    ],
)
def test_refusal_names_webhook_or_patch(message: str, by: str) -> None:
    assert Refusal.parse(message) == Refusal(by, message)


def plan(name: str, *machines: MachineChange, refused: str = "", note: str = "") -> TopologyPlan:
    refusal = Refusal.parse(refused) if refused else None
    notes = ("common",), (note,) if note else ()
    return TopologyPlan(Key("a", name), "v1", "v1", "v1.35.0", "v1.35.0", "v1.14.0", *notes, (), machines, (), refusal)


def test_clusters_of_a_class_are_grouped_by_what_happens_to_their_machines() -> None:
    def worker(name: str, machines: int = 3) -> MachineChange:
        return MachineChange("replace", "MachineDeployment", f"{name}-md-0", "md-0", machines, ("version",))

    webhook = 'admission webhook "x" denied the request: {} is wrong'
    found = ClassPlan(
        Key("a", "v1"),
        "v1.14.0",
        ("common",),
        grouped(
            [
                plan("quiet"),
                *(plan(name, worker(name)) for name in ("one", "two", "three")),
                plan("large", worker("large", 9), note="paused"),
                *(plan(name, refused=webhook.format(name)) for name in ("bad", "worse")),
            ]
        ),
    )
    assert [[key.name for key in group.clusters] for group in found.groups] == [
        ["one", "two", "three"],
        ["bad", "worse"],
        ["quiet"],
        ["large"],
    ]
    assert (found.summary, found.exit_code) == ("18 machines replaced in 4 of 7 Clusters", 4)
    assert found.groups[3].notes == ("a/large: paused",)
    text = "\n".join(class_lines(found))
    assert "3 Clusters:[/bold] 3 machines replaced, no object changed\n  a/one, a/two, a/three" in text
    assert "refused by webhook x" in text
    assert found.dump()["groups"][0]["machines"][0] == {
        name: value for name, value in worker("").dump().items() if name != "name"
    }


def test_kinds_of_a_preview_are_those_of_objects_references_and_what_templates_make() -> None:
    reference = {"apiVersion": "infrastructure.test/v1", "kind": "CloudMachineTemplate", "name": "a"}
    found = set(needed_kinds([obj("ClusterClass", spec={"workers": [{"templateRef": reference}]})]))
    group = "infrastructure.test"
    assert found == {
        ("cluster.x-k8s.io", "ClusterClass"),
        (group, "CloudMachineTemplate"),
        (group, "CloudMachine"),
    }


def test_core_before_v1_11_is_refused() -> None:
    for version in ("v1.11.0", "v1.14.0", "main", ""):
        check_version(version)
    with pytest.raises(Failure, match=r"core v1\.10\.9: a preview needs v1\.11 or newer"):
        check_version("v1.10.9")


@pytest.mark.parametrize(
    ("reason", "created", "reconciled"),
    [
        ("ReconcileSucceeded", True, True),
        ("ClusterUpgrading", True, True),
        ("ReconcileFailed", False, True),
        ("ClusterClassNotReconciled", True, False),
        ("ClusterCreating", False, False),
    ],
)
def test_topology_is_reconciled_once_core_has_created_or_refused_its_objects(
    reason: str, *, created: bool, reconciled: bool
) -> None:
    condition = {"type": "TopologyReconciled", "reason": reason, "observedGeneration": 4}
    spec = {"controlPlaneRef": {"name": "a"}} if created else {}
    state = identify([obj("Cluster", spec=spec, status={"conditions": [condition]})])
    assert is_reconciled(state, Key("a", "cluster")) is reconciled


@pytest.mark.parametrize(("annotations", "reconciled"), [({}, False), ({"cluster.x-k8s.io/paused": ""}, True)])
def test_preview_waits_for_no_paused_object(annotations: dict[str, str], *, reconciled: bool) -> None:
    condition = {"type": "TopologyReconciled", "reason": "ReconcileSucceeded", "observedGeneration": 4}
    one = obj("Cluster", spec={"controlPlaneRef": {"name": "a"}}, status={"conditions": [condition]})
    machines = obj("MachineSet", "2", spec={"clusterName": "cluster"}, status={"observedGeneration": 3})
    machines["metadata"] |= {"labels": {"cluster.x-k8s.io/cluster-name": "cluster"}, "annotations": annotations}
    assert is_reconciled(identify([one, machines]), Key("a", "cluster")) is reconciled


def test_objects_of_a_deleted_machine_pool_are_deleted_with_it() -> None:
    """A preview has no garbage collector."""
    labels = {"cluster.x-k8s.io/cluster-name": "cluster", "topology.cluster.x-k8s.io/owned": ""}
    pool, config, other = obj("MachinePool", "1"), obj("KubeadmConfig", "2", "1"), obj("DevCluster", "3")
    for each in (pool, config, other):
        each["metadata"]["labels"] = labels
    states = [identify([pool, config, other]), identify([config, other])]
    assert [(change.action, change.kind) for change in object_changes(states, Key("a", "cluster"))] == [
        ("delete", "KubeadmConfig"),
        ("delete", "MachinePool"),
    ]


def test_manifests_of_a_class_are_in_its_namespace() -> None:
    one, other = obj("ClusterClass"), {"kind": "KubeadmConfigTemplate", "metadata": {"name": "b"}}
    found = Change(manifests=(one, other)).within("of-the-class")
    assert [each["metadata"]["namespace"] for each in found.manifests] == ["a", "of-the-class"]


def test_class_with_patches_of_an_extension_is_not_previewed() -> None:
    refuse_external_patches(obj("ClusterClass", spec={"patches": [{"name": "a", "definitions": []}]}))
    with pytest.raises(Failure, match="runtime extensions"):
        refuse_external_patches(obj("ClusterClass", spec={"patches": [{"name": "a", "external": {}}]}))


def test_manager_of_a_preview_is_no_deployment_of_a_tenant() -> None:
    def labelled(kind: str, provider: str, namespace: str, **content: Any) -> Object:
        labels = {"cluster.x-k8s.io/provider": provider}
        return {"kind": kind, "metadata": {"name": provider, "namespace": namespace, "labels": labels}, **content}

    def webhooks(provider: str, namespace: str) -> Object:
        client = {"service": {"namespace": namespace, "name": "webhook"}}
        return labelled("ValidatingWebhookConfiguration", provider, "", webhooks=[{"clientConfig": client}])

    core, kubeadm = labelled("Deployment", "cluster-api", "capi-system"), labelled("Deployment", "bootstrap-b", "b")
    of_tenant = [labelled("Deployment", name, "zzz") for name in ("cluster-api", "bootstrap-b", "bootstrap-c")]
    found = managers(
        [core, kubeadm, *of_tenant], [webhooks("cluster-api", "capi-system"), webhooks("bootstrap-b", "b")]
    )
    assert found == {"cluster-api": core, "bootstrap-b": kubeadm}
    assert managers(of_tenant, []) == {}
