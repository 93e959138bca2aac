"""Accessors for Clusters and the objects they refer to, for both contracts and invalid input."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.api import cluster as cluster_api

GARBAGE: list[Any] = [None, {}, [], "text", 7, True, {"name": None}, {"name": 5}, {"name": ["x"]}]


def spec(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


@pytest.mark.parametrize(
    ("topology", "name"),
    [
        ({"class": "scs-1-33-v1"}, "scs-1-33-v1"),
        ({"class": "scs", "classNamespace": "classes"}, "scs"),
        ({"classRef": {"name": "scs"}}, "scs"),
        ({"classRef": {"name": "scs", "namespace": "classes"}}, "scs"),
        ({"classRef": {"name": "new"}, "class": "old"}, "new"),
        ({"class": ""}, None),
        *[(garbage, None) for garbage in GARBAGE],
        *[({"class": garbage, "classRef": garbage}, None) for garbage in GARBAGE if not isinstance(garbage, str)],
    ],
)
def test_class_name_in_both_contracts(topology: Any, name: str | None) -> None:
    assert cluster_api.class_name(spec(topology=topology)) == name


@pytest.mark.parametrize(
    ("topology", "namespace"),
    [
        ({"class": "scs"}, "team"),
        ({"class": "scs", "classNamespace": "classes"}, "classes"),
        ({"classRef": {"name": "scs", "namespace": "classes"}}, "classes"),
        ({"classRef": {"namespace": "new"}, "classNamespace": "old"}, "new"),
    ],
    ids=["the Cluster's own", "v1beta1", "v1beta2", "v1beta2 first"],
)
def test_class_namespace_in_both_contracts(topology: Any, namespace: str) -> None:
    assert cluster_api.class_namespace(spec(topology=topology)) == namespace


def test_class_namespace_of_an_object_without_metadata_is_empty() -> None:
    assert cluster_api.class_namespace({}) == ""


@pytest.mark.parametrize("cluster", [{}, {"spec": None}, {"spec": "text"}, {"metadata": None, "status": []}])
def test_cluster_without_spec_reads_as_unset(cluster: Any) -> None:
    assert cluster_api.class_name(cluster) is None
    assert cluster_api.endpoint(cluster) is None
    assert cluster_api.infrastructure_ref(cluster) is None
    assert cluster_api.control_plane_ref(cluster) is None
    assert not cluster_api.is_paused(cluster)
    assert not cluster_api.infrastructure_provisioned(cluster)
    assert cluster_api.failure_domains(cluster) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"host": "1.2.3.4", "port": 6443}, ("1.2.3.4", 6443)),
        ({"host": "::1", "port": 6443}, ("::1", 6443)),
        ({"host": "", "port": 6443}, None),
        ({"host": "1.2.3.4", "port": 0}, None),
        ({"host": "1.2.3.4"}, None),
        ({"port": 6443}, None),
        ({"host": "1.2.3.4", "port": "6443"}, None),
        ({"host": "1.2.3.4", "port": True}, None),
        ({"host": {"a": 1}, "port": 1}, None),
        *[(garbage, None) for garbage in GARBAGE],
    ],
)
def test_endpoint_needs_host_and_port(given: Any, expected: tuple[str, int] | None) -> None:
    assert cluster_api.endpoint(spec(controlPlaneEndpoint=given)) == expected


@pytest.mark.parametrize("accessor", [cluster_api.infrastructure_ref, cluster_api.control_plane_ref])
def test_references_need_kind_and_name(accessor: Callable[[Any], Any]) -> None:
    field = accessor.__name__.replace("_ref", "Ref").replace("control_plane", "controlPlane")
    new = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "K", "name": "k"}
    old = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "K", "name": "k", "namespace": "team"}
    assert accessor(spec(**{field: new})) == new
    assert accessor(spec(**{field: old})) == old
    for unset in [*GARBAGE, {"kind": "K"}, {"kind": "", "name": "k"}, {"kind": "K", "name": 3}]:
        assert accessor(spec(**{field: unset})) is None


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (spec(paused=True), True),
        (spec(paused=False), False),
        (spec(paused="true"), False),
        ({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}, True),
        ({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "false"}}}, True),
        ({"metadata": {"annotations": {"other": "true"}}}, False),
        ({"metadata": {"annotations": "cluster.x-k8s.io/paused"}}, False),
    ],
)
def test_pausing_by_spec_or_annotation(obj: Any, expected: bool) -> None:
    assert cluster_api.is_paused(obj) is expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"runtime.cluster.x-k8s.io/ok-to-delete": ""}, True),
        ({"runtime.cluster.x-k8s.io/ok-to-delete": "false"}, True),
        ({"other": "true"}, False),
        ("runtime.cluster.x-k8s.io/ok-to-delete", False),
        (None, False),
    ],
)
def test_hooks_allow_the_deletion_by_annotation_whatever_its_value(annotations: Any, expected: bool) -> None:
    assert cluster_api.ok_to_delete({"metadata": {"annotations": annotations}}) is expected


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00", None),
        ("soon", None),
        (None, None),
    ],
    ids=["UTC", "no time zone", "no time", "unset"],
)
def test_times_of_an_object_have_a_time_zone(text: str | None, time: datetime | None) -> None:
    assert cluster_api.created_at({"metadata": {"creationTimestamp": text}}) == time
    assert cluster_api.deleted_at({"metadata": {"deletionTimestamp": text}}) == time


@pytest.mark.parametrize(
    ("accessor", "obj", "expected"),
    [
        (cluster_api.provisioned, status(ready=True), True),
        (cluster_api.provisioned, status(initialization={"provisioned": True}), True),
        (cluster_api.provisioned, status(initialization={"provisioned": False}, ready=False), False),
        (cluster_api.provisioned, status(ready="true"), False),
        (cluster_api.provisioned, status(initialization=[]), False),
        (cluster_api.infrastructure_provisioned, status(initialization={"infrastructureProvisioned": True}), True),
        (cluster_api.infrastructure_provisioned, status(infrastructureReady=True), True),
        (cluster_api.infrastructure_provisioned, status(infrastructureReady=None), False),
        (cluster_api.control_plane_initialized, status(initialization={"controlPlaneInitialized": True}), True),
        (cluster_api.control_plane_initialized, status(initialized=True), True),
        (
            cluster_api.control_plane_initialized,
            status(conditions=[{"type": "ControlPlaneInitialized", "status": "True"}]),
            True,
        ),
        (cluster_api.control_plane_initialized, status(ready=True), False),
    ],
)
def test_facts_in_both_contracts(accessor: Callable[[Any], bool], obj: Any, expected: bool) -> None:
    assert accessor(obj) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, []),
        ({}, []),
        ([], []),
        (
            {"b": {"controlPlane": True}, "a": {"attributes": {"zone": "1"}}, "c": None},
            [
                {"name": "a", "controlPlane": False, "attributes": {"zone": "1"}},
                {"name": "b", "controlPlane": True},
                {"name": "c", "controlPlane": False},
            ],
        ),
        (
            [{"name": "b", "controlPlane": True}, {"name": "a", "attributes": {}}],
            [{"name": "a", "controlPlane": False}, {"name": "b", "controlPlane": True}],
        ),
    ],
)
def test_failure_domains_are_normalised_and_sorted(given: Any, expected: list[dict[str, Any]]) -> None:
    assert cluster_api.failure_domains(status(failureDomains=given)) == expected


@pytest.mark.parametrize(
    "given",
    [
        "a",
        3,
        True,
        ["a"],
        [{}],
        [{"name": ""}],
        [{"name": 1}],
        [{"name": "a", "controlPlane": "yes"}],
        [{"name": "a", "attributes": []}],
        {"a": "b"},
        {"a": []},
        {"a": {"controlPlane": 1}},
    ],
)
def test_invalid_failure_domains_are_rejected(given: Any) -> None:
    with pytest.raises(ValueError, match=r"failureDomains|failure domain"):
        cluster_api.failure_domains(status(failureDomains=given))


def test_constants_and_accessors_load_without_pydantic() -> None:
    import subprocess
    import sys

    program = (
        "import sys, shared.api.resources, shared.api.conditions, shared.api.cluster; print('pydantic' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
