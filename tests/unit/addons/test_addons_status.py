"""What a ClusterAddon shows: up to date, awaiting readiness, rolled back, or left by an earlier Cluster."""

from __future__ import annotations

from typing import Any

import pytest

from shared.addons.status import (
    belongs_to_earlier_cluster,
    is_awaiting_readiness,
    is_rollback_requested,
    is_rolled_back,
    is_up_to_date,
    names_another_cluster,
)
from shared.kube import Object

CLASS = "docker-ferrol-1-27-v2"
CLUSTER = {
    "metadata": {"namespace": "ns", "name": "demo", "uid": "c"},
    "spec": {"topology": {"classRef": {"name": CLASS}}},
}


def condition(type_: str, status: str, reason: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason}


def addon(
    *conditions: Object, rollback_from: str = "", ready: Any = True, applied: str = CLASS, hook: str | None = None
) -> Object:
    """An addon of this class that is applied and ready, but for the conditions given."""
    found = {entry["type"]: entry for entry in (*APPLIED, *conditions)}
    annotations = {"capi-functions.dev/rollback-from": rollback_from} if rollback_from else {}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"clusterStack": applied, "hook": hook},
        "status": {"ready": ready, "conditions": list(found.values())},
    }


APPLIED = (condition("HelmChartApplied", "True"), condition("ClusterReady", "True"))
ROLLED_BACK = condition("HelmChartApplied", "False", "RolledBack")
UNREADY = condition("ObjectsReady", "False")


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(addon(), True, id="applied and ready"),
        pytest.param(addon(hook=""), True, id="no hook in progress"),
        pytest.param(addon(applied="docker-ferrol-1-27-v1"), False, id="another class applied"),
        pytest.param(addon(hook="AfterControlPlaneInitialized"), False, id="a hook in progress"),
        pytest.param(addon(ready=False), False, id="not ready"),
        pytest.param(addon(ready="true"), False, id="ready of the wrong type"),
        pytest.param(addon(condition("HelmChartApplied", "False")), False, id="chart not applied"),
        pytest.param(addon(condition("ClusterReady", "False")), False, id="cluster not reachable"),
        pytest.param({"metadata": {}, "spec": {"clusterStack": CLASS}}, False, id="without status"),
        pytest.param(addon(rollback_from=CLASS), False, id="rollback requested"),
        pytest.param(addon(ROLLED_BACK, rollback_from=CLASS, ready=False), True, id="rolled back as requested"),
        pytest.param(addon(ROLLED_BACK), False, id="rolled back, not requested any more"),
        pytest.param(addon(rollback_from="docker-ferrol-1-27-v1"), True, id="rollback from another class"),
    ],
)
def test_addon_is_up_to_date_with_the_class_of_its_cluster(obj: Object, expected: bool) -> None:
    assert is_up_to_date(obj, CLUSTER) is expected


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(addon(UNREADY), True, id="applied, objects not ready"),
        pytest.param(addon(), False, id="nothing known of the objects"),
        pytest.param(addon(condition("ObjectsReady", "True")), False, id="objects ready"),
        pytest.param(addon(UNREADY, applied="docker-ferrol-1-27-v1"), False, id="another class applied"),
        pytest.param(addon(UNREADY, condition("HelmChartApplied", "False")), False, id="chart not applied"),
        pytest.param(addon(UNREADY, rollback_from=CLASS), False, id="rollback requested"),
        pytest.param(addon(UNREADY, rollback_from="docker-ferrol-1-27-v1"), True, id="rollback from another class"),
    ],
)
def test_addon_awaits_readiness_once_all_is_applied(obj: Object, expected: bool) -> None:
    assert is_awaiting_readiness(obj, CLUSTER) is expected


@pytest.mark.parametrize(
    ("obj", "requested", "done"),
    [
        pytest.param(addon(), False, False, id="no annotation"),
        pytest.param(addon(rollback_from=CLASS), True, False, id="requested"),
        pytest.param(addon(ROLLED_BACK, rollback_from=CLASS), True, True, id="done"),
        pytest.param(addon(ROLLED_BACK), False, False, id="request withdrawn"),
        pytest.param(addon(ROLLED_BACK, rollback_from="other"), False, False, id="from another class"),
        pytest.param(
            addon(condition("ClusterReady", "False", "RolledBack"), rollback_from=CLASS),
            True,
            False,
            id="another condition",
        ),
    ],
)
def test_rollback_is_requested_from_the_present_class_only(obj: Object, requested: bool, done: bool) -> None:
    assert is_rollback_requested(obj, CLUSTER) is requested
    assert is_rolled_back(obj, CLUSTER) is done


def test_cluster_without_class_requests_no_rollback() -> None:
    assert is_rollback_requested(addon(), {"metadata": {}, "spec": {}}) is False


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({"clusterRef": {"uid": "c"}}, False), ({"clusterRef": {"uid": "b"}}, True), ({"clusterRef": {}}, False)],
    ids=["this Cluster", "another one of its name", "no uid recorded"],
)
def test_addon_of_an_earlier_cluster_is_found_by_uid(spec: Object, expected: bool) -> None:
    assert belongs_to_earlier_cluster({"spec": spec}, CLUSTER) is expected
    owned = {"metadata": {"ownerReferences": [{"kind": "Cluster", "name": "demo", "uid": "c"}]}, "spec": spec}
    assert not belongs_to_earlier_cluster(owned, CLUSTER), "it was moved with its Cluster"
    assert names_another_cluster(owned, CLUSTER) is expected
