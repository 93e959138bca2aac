"""The status of v1beta1 in the shape of v1beta2, and back: what functions read, and what they write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.api.conditions import get_condition
from shared.api.core import core_state
from shared.api.resources import CLUSTER
from shared.api.v1beta1 import downgrade, dropped, upgrade
from shared.effects import would_change
from shared.kube import MANAGER, Object, dig

TIME = "2026-01-01T00:00:00Z"
OURS: Object = {"type": "Ours", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}
READY: Object = {"type": "Ready", "status": "False", "severity": "Error", "reason": "Bad", "lastTransitionTime": TIME}

THEIRS: Object = READY | {"type": "TheirCheck"}


def cluster(**status: Any) -> Object:
    return {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c"}, "status": status}


def metav1(condition: Object, generation: int | None = None) -> Object:
    found = {"message": ""} | {name: value for name, value in condition.items() if name != "severity"}
    return found | ({"observedGeneration": generation} if generation else {})


@pytest.mark.parametrize(
    ("status", "field", "expected"),
    [
        pytest.param({"infrastructureReady": True}, "initialization", {"infrastructureProvisioned": True}, id="ready"),
        pytest.param({"infrastructureReady": False}, "initialization", None, id="not ready"),
        pytest.param(
            {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]},
            "initialization",
            {"controlPlaneInitialized": True},
            id="initialized",
        ),
        pytest.param(
            {"failureDomains": {"b": {"controlPlane": True}, "a": {}}},
            "failureDomains",
            [{"name": "a"}, {"name": "b", "controlPlane": True}],
            id="failure domains",
        ),
        pytest.param(
            {"conditions": [READY], "observedGeneration": 3}, "conditions", [metav1(READY, 3)], id="before 1.9"
        ),
        pytest.param(
            {"conditions": [READY], "v1beta2": {"conditions": [OURS]}}, "conditions", [OURS], id="1.9 and 1.10"
        ),
        pytest.param({"v1beta2": {"workers": {"replicas": 1}}}, "workers", {"replicas": 1}, id="counters"),
        pytest.param(
            {"readyReplicas": 5, "v1beta2": {"readyReplicas": 1}}, "readyReplicas", 1, id="another meaning in v1beta2"
        ),
        pytest.param({"phase": "Provisioned"}, "phase", "Provisioned", id="the same in both"),
        pytest.param(
            {"conditions": [READY], "failureReason": "f", "phase": "p"},
            "deprecated",
            {"v1beta1": {"conditions": [READY], "failureReason": "f"}},
            id="deprecated",
        ),
    ],
)
def test_status_of_v1beta1_is_read_as_one_of_v1beta2(status: Object, field: str, expected: object) -> None:
    assert upgrade(cluster(**status))["status"].get(field) == expected


@pytest.mark.parametrize("status", [{}, {"conditions": [READY]}, {"v1beta2": {"conditions": [OURS]}}])
def test_upgrade_changes_neither_version_nor_an_upgraded_object(status: Object) -> None:
    """An event may have passed the forwarder, which has read it in the same way."""
    upgraded = upgrade(cluster(**status))
    assert upgrade(upgraded) == upgraded
    assert upgraded["apiVersion"] == "cluster.x-k8s.io/v1beta1"


def test_object_of_the_newer_version_stays_as_it_is() -> None:
    newer = cluster(conditions=[OURS]) | {"apiVersion": CLUSTER.api_version}
    assert CLUSTER.upgraded(newer) is newer
    assert CLUSTER.upgraded(cluster(conditions=[OURS])) != newer


OLD = {"conditions": [READY]}
NEW = {"conditions": [READY], "v1beta2": {"conditions": []}}


def without_reason(condition: Object) -> Object:
    return {name: value for name, value in condition.items() if name != "reason"}


FALSE = OURS | {"status": "False"}


@pytest.mark.parametrize(
    ("status", "patch", "expected"),
    [
        pytest.param(NEW, {"conditions": [OURS]}, {"v1beta2": {"conditions": [OURS]}}, id="conditions"),
        pytest.param(
            OLD, {"conditions": [metav1(READY), OURS]}, {"v1beta2": {"conditions": [OURS]}}, id="first of the new kind"
        ),
        pytest.param(
            NEW,
            {"conditions": [], "deprecated": {"v1beta1": {"conditions": [OURS]}}},
            {"v1beta2": {"conditions": []}, "conditions": [OURS]},
            id="both kinds",
        ),
        pytest.param(
            {"conditions": [THEIRS, READY]},
            {"conditions": [metav1(THEIRS), OURS], "deprecated": {"v1beta1": {"conditions": [READY]}}},
            {"v1beta2": {"conditions": [OURS]}},
            id="conditions of others are not removed in between",
        ),
        pytest.param(
            {},
            {"initialization": {"infrastructureProvisioned": True}, "phase": "Provisioned", "observedGeneration": 1},
            {"infrastructureReady": True, "phase": "Provisioned", "observedGeneration": 1},
            id="provisioned",
        ),
        pytest.param({}, {"initialization": None, "phase": "Pending"}, {"phase": "Pending"}, id="nothing yet"),
        pytest.param(
            {"failureDomains": {"a": {}, "b": {}}},
            {"failureDomains": [{"name": "a", "controlPlane": True}]},
            {"failureDomains": {"a": {"controlPlane": True}, "b": None}},
            id="failure domains",
        ),
        pytest.param({}, {"failureDomains": None}, {"failureDomains": None}, id="no failure domains"),
        pytest.param(NEW, {"workers": {"replicas": 1}}, {"v1beta2": {"workers": {"replicas": 1}}}, id="counters"),
    ],
)
def test_status_of_v1beta2_is_written_as_one_of_v1beta1(status: Object, patch: Object, expected: Object) -> None:
    assert downgrade(upgrade(cluster(**status)), patch) == expected


@pytest.mark.parametrize(
    ("stored", "patch", "expected"),
    [
        pytest.param(NEW, {"conditions": [OURS]}, {}, id="nothing"),
        pytest.param(OLD, {"phase": "Pending"}, {}, id="no conditions"),
        pytest.param(OLD, {"conditions": [metav1(READY), OURS]}, {"conditions": [READY, OURS]}, id="conditions"),
        pytest.param(
            {},
            {"conditions": [FALSE | {"observedGeneration": 2}]},
            {"conditions": [FALSE | {"severity": "Info"}]},
            id="a new condition",
        ),
        pytest.param(
            OLD,
            {"conditions": [OURS], "deprecated": {"v1beta1": {"conditions": [OURS | {"reason": "Other"}, READY]}}},
            {"conditions": [OURS, READY]},
            id="both kinds in one list",
        ),
        pytest.param(
            OLD,
            {"conditions": [metav1(READY)], "deprecated": {"v1beta1": {"conditions": [READY | {"status": "True"}]}}},
            {"conditions": [READY | {"status": "True"}]},
            id="a change of a condition of v1beta1",
        ),
        pytest.param(
            {"conditions": [OURS, READY]},
            {
                "conditions": [OURS, metav1(READY)],
                "deprecated": {"v1beta1": {"conditions": [without_reason(OURS), READY]}},
            },
            {"conditions": [OURS, READY]},
            id="the same in both forms",
        ),
        pytest.param(
            {"conditions": [THEIRS]},
            {"conditions": [metav1(THEIRS), OURS], "deprecated": {"v1beta1": {"conditions": [READY]}}},
            {"conditions": [THEIRS, OURS, READY]},
            id="a severity of others",
        ),
    ],
)
def test_conditions_that_a_server_drops_are_written_in_the_older_form(
    stored: Object, patch: Object, expected: Object
) -> None:
    assert dropped(upgrade(cluster(**stored)), patch) == expected


@pytest.mark.parametrize("keeps_block", [True, False])
@pytest.mark.parametrize("before", [{}, OLD])
def test_what_was_written_is_read_again(before: Object, keeps_block: bool) -> None:
    """Otherwise each event would be followed by a write."""
    obj = upgrade(cluster(**before))
    patch: Object = {
        "conditions": [*dig(obj, "status.conditions", []), OURS | {"observedGeneration": 1}],
        "initialization": {"infrastructureProvisioned": True},
        "failureDomains": [{"name": "a", "controlPlane": True}],
        "phase": "Provisioned",
        "observedGeneration": 1,
    }
    assert would_change(obj["status"], patch)
    stored = merged(before, downgrade(obj, patch))
    if not keeps_block:
        del stored["v1beta2"]
        stored = merged(stored, dropped(upgrade(cluster(**stored)), patch))
    again = upgrade(cluster(**stored))["status"]
    assert get_condition(again["conditions"], "Ours") == OURS | {"observedGeneration": 1}
    assert not would_change(again, patch | {"conditions": again["conditions"]})
    assert READY not in before.get("conditions", []) or READY in stored["conditions"], "the severity is kept"


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "manager", "fields", "expected"),
    [
        pytest.param({"observedGeneration": 2}, "manager", {"f:observedGeneration": {}}, "live", id="1.7, core"),
        pytest.param({"observedGeneration": 1}, "manager", {"f:observedGeneration": {}}, "late", id="1.7, next change"),
        pytest.param({"observedGeneration": 2}, MANAGER, {"f:observedGeneration": {}}, "none", id="1.7, no core"),
        pytest.param({"phase": "Pending"}, "manager", {"f:phase": {}}, "none", id="1.7, nothing observed"),
        pytest.param(
            {"v1beta2": {"conditions": [OURS | {"type": "Available", "observedGeneration": 2}]}},
            "manager",
            {"f:v1beta2": {"f:conditions": {'k:{"type":"Available"}': {"f:observedGeneration": {}}}}},
            "live",
            id="1.10, core",
        ),
        pytest.param(
            {"v1beta2": {"conditions": [OURS | {"type": "Available", "observedGeneration": 2}]}},
            MANAGER,
            {"f:v1beta2": {"f:conditions": {'k:{"type":"Available"}': {"f:observedGeneration": {}}}}},
            "none",
            id="1.10, no core",
        ),
    ],
)
def test_core_that_serves_v1beta1_is_recognized(status: Object, manager: str, fields: Object, expected: str) -> None:
    entry = {"manager": manager, "time": TIME, "fieldsV1": {"f:status": fields}}
    obj = cluster(**status)
    obj["metadata"] |= {"generation": 2, "managedFields": [entry]}
    assert core_state(upgrade(obj), NOW) == expected


def merged(current: Object, patch: Object) -> Object:
    """Returns the result of a JSON merge patch."""
    found = dict(current)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name) or {}, value) if isinstance(value, dict) else value
    return found
