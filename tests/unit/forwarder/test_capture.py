"""Captures: extracting the user's part of an object, recording, and loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from events.capture import Capture, load, ordered
from events.inputs import user_part
from shared.event import EventError, change_event

SERVERS: dict[str, Any] = {
    "uid": "u",
    "resourceVersion": "7",
    "generation": 1,
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": fields}
    return entry | ({"subresource": subresource} if subresource else {})


def kind_cluster(*managers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "infrastructure.cluster-k8s.io/v1alpha1",
        "kind": "KINDCluster",
        "metadata": {"name": "one", "namespace": "team", **SERVERS, "managedFields": list(managers), **metadata},
        "spec": {"image": "node", "controlPlaneEndpoint": {"host": "h"}, "list": [{"name": "a"}, {"name": "b"}]},
        "status": {"ready": True},
    }


KUBECTL = managed("kubectl", {"f:spec": {"f:image": {}, "f:list": {'k:{"name":"a"}': {".": {}, "f:name": {}}}}})
OURS = managed(
    "capi-functions",
    {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"kindcluster"': {}}, "f:ownerReferences": {".": {}}},
        "f:spec": {"f:controlPlaneEndpoint": {}, "f:list": {'k:{"name":"b"}': {".": {}, "f:name": {}}}},
    },
)
OF_ONE_FUNCTION = {**OURS, "manager": "capi-functions-kubeconfig"}
STATUS = managed("kubectl", {"f:status": {"f:ready": {}}}, "status")
LABEL = managed("kubectl", {"f:metadata": {"f:labels": {"f:x": {}}}})
SYSTEM = managed("kube-controller-manager", {"f:spec": {"f:image": {}}})


def test_user_part_omits_fields_set_by_functions_and_the_server() -> None:
    obj = kind_cluster(KUBECTL, OURS, STATUS, finalizers=["kindcluster"], ownerReferences=[{"kind": "Cluster"}])
    assert user_part(obj) == {
        "apiVersion": "infrastructure.cluster-k8s.io/v1alpha1",
        "kind": "KINDCluster",
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"image": "node", "list": [{"name": "a"}]},
    }
    assert obj["status"], "the object of the event stays unchanged"


@pytest.mark.parametrize(
    "managers",
    [(OURS,), (OF_ONE_FUNCTION,), (OURS, STATUS), (OURS, LABEL), (SYSTEM,)],
    ids=["ours", "of one of our functions", "ours, status by a user", "ours, label by a user", "system"],
)
def test_objects_created_by_programs_are_not_inputs(managers: tuple[dict[str, Any], ...]) -> None:
    assert user_part(kind_cluster(*managers)) is None


def test_object_being_deleted_is_not_an_input() -> None:
    assert user_part(kind_cluster(KUBECTL, deletionTimestamp="2026-01-01T00:00:00Z")) is None


def test_ordered_inputs_begin_with_all_referenced_namespaces() -> None:
    given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b", "labels": {"x": "y"}}}
    objects = [
        kind_cluster(),
        given,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "b"}},
    ]
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in ordered(objects)] == [
        ("Namespace", "b"),
        ("Namespace", "team"),
        ("KINDCluster", "one"),
        ("ConfigMap", "c"),
    ]


def test_loaded_capture_equals_the_recording(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    first = kind_cluster(KUBECTL)
    second = first | {"spec": {"image": "newer"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "team"},
        "data": {"k": "dg=="},
    }
    made = kind_cluster(OURS)
    made["metadata"] |= {"name": "made"}
    edited = kind_cluster(OURS, KUBECTL)
    edited["metadata"] |= {"name": "made"}
    gone = kind_cluster(KUBECTL)
    gone["metadata"] |= {"name": "gone"}
    going = gone | {
        "spec": {"image": "last"},
        "metadata": {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    remade = gone | {"metadata": {**gone["metadata"], "managedFields": [OURS]}}
    events = [
        change_event(first, "add", source="test"),
        change_event(secret, "add", source="test", reference=True),
        change_event(second, "update", source="test"),
        change_event(made, "add", source="test"),
        change_event(edited, "update", source="test"),
        change_event(gone, "add", source="test"),
        change_event(going, "update", source="test"),
        change_event(going, "delete", source="test"),
        change_event(remade, "add", source="test"),
    ]
    for event in events:
        capture.record(event)
    capture.add_input(
        extra := {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
    )
    recording = capture.stop()
    assert list(recording.events) == events
    named = [(obj["kind"], obj["metadata"]["name"]) for obj in recording.inputs]
    assert named == [("Namespace", "team"), ("KINDCluster", "one"), ("KINDCluster", "gone"), ("ConfigMap", "c")]
    assert recording.inputs[1]["spec"]["image"] == "newer"
    assert recording.inputs[2] == user_part(gone), "the last version before the deletion"
    assert recording.inputs[3] == extra
    assert sorted(file.name for file in (tmp_path / "events").iterdir())[:2] == [
        "00001-kindcluster-add-team-one.json",
        "00002-secret-add-team-s.json",
    ]
    assert "dg==" not in "".join(file.read_text() for file in tmp_path.rglob("*.*") if file.is_file())
    with pytest.raises(FileExistsError):
        Capture(tmp_path)


def test_load_reads_single_files_and_names_an_invalid_one(tmp_path: Path) -> None:
    event = change_event(kind_cluster(), "add", source="test")
    (one := tmp_path / "one.json").write_text(event.to_json())
    (many := tmp_path / "many.json").write_text(f"[{event.to_json()},{event.to_json()}]")
    (inputs := tmp_path / "inputs.yaml").write_text("---\na: 1\n---\n")
    (bad := tmp_path / "bad.json").write_text('{"specversion": "1.0"}')
    assert load(one).events == (event,)
    assert load(many).events == (event, event)
    assert load(inputs).inputs == ({"a": 1},)
    with pytest.raises(EventError, match=r"bad\.json.*missing"):
        load(bad)
    (broken := tmp_path / "broken.yaml").write_text("a: {")
    with pytest.raises(EventError, match=r"broken\.yaml: not YAML"):
        load(broken)
