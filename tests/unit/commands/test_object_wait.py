"""What `wait` accepts as a goal, and when an object has reached it."""

from __future__ import annotations

import pytest

from infra.operations.listing import cluster_row, row_of
from infra.operations.object_wait import Goal, obstacle, parse_goal
from shared.kube import Object


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("", Goal()),
        ("Available", Goal("Available")),
        ("Available=False", Goal("Available", "False")),
        ("delete", Goal("delete")),
    ],
)
def test_goal_is_a_condition_or_deletion(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize(
    ("text", "why"),
    [("=True", "not a condition"), ("Available=yes", "not a condition"), ("delete=True", "takes no status")],
)
def test_other_goals_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_goal(text)


def addon(status: str, *, applied: str = "v1", observed: int = 1) -> Object:
    condition = {"type": "Ready", "status": status, "reason": "Why", "message": "cni", "observedGeneration": observed}
    return {
        "kind": "ClusterAddon",
        "metadata": {"name": "demo", "namespace": "team", "generation": 2},
        "spec": {"clusterStack": applied},
        "status": {"conditions": [condition], "observedGeneration": observed},
    }


@pytest.mark.parametrize(
    ("obj", "goal", "why"),
    [
        pytest.param(addon("True", observed=2), Goal(), "", id="ready"),
        pytest.param(addon("False", observed=2), Goal(), "Why: cni", id="not ready"),
        pytest.param(addon("True"), Goal(), "its last change is not reconciled yet", id="ready before the change"),
        pytest.param(addon("True", observed=2), Goal("Ready"), "", id="condition"),
        pytest.param(addon("True"), Goal("Ready"), "its last change is not reconciled yet", id="old condition"),
        pytest.param(addon("False", observed=2), Goal("Ready", "False"), "", id="condition is False"),
        pytest.param(addon("False", observed=2), Goal("Ready"), "Ready=False: Why: cni", id="another status"),
        pytest.param(addon("True", observed=2), Goal("Other"), "has no condition Other yet", id="no condition"),
        pytest.param(addon("True", observed=2), Goal("delete"), "exists", id="not deleted"),
    ],
)
def test_obstacle_is_the_reason_of_the_object(obj: Object, goal: Goal, why: str) -> None:
    assert obstacle(row_of(obj), goal) == why


@pytest.mark.parametrize(
    ("applied", "why"), [("v2", ""), ("v1", "the addons of the class v2 are not applied yet"), ("", "")]
)
def test_cluster_is_not_ready_before_the_addons_of_its_class(applied: str, why: str) -> None:
    cluster = {
        "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": "team"},
        "spec": {"topology": {"classRef": {"name": "v2"}}},
        "status": {"conditions": [{"type": "Available", "status": "True"}]},
    }
    assert obstacle(cluster_row(cluster, addon("True", applied=applied)), Goal()) == why
