"""Which changes of Clusters and ClusterAddons concern ClusterRollouts."""

from __future__ import annotations

import pytest

from functions.rollout_wake.triggers import TRIGGERS, relevant_in_addon, relevant_in_cluster
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import change_event
from shared.kube import Key, Object
from tests.support.objects import manifest


def cluster(
    status: str = "True", reason: str = "R", message: str = "", type_: str = "Available", **more: object
) -> Object:
    others = [] if type_ == "Available" else [{"type": "Available", "status": "True"}]
    conditions = [
        *others,
        {"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1},
    ]
    metadata = {"generation": 1, **more}
    return manifest(CLUSTER, "one", "fleet", metadata=metadata, status={"conditions": conditions})


def addon(stack: str = "v1", status: str = "True", message: str = "") -> Object:
    conditions = [{"type": "Ready", "status": status, "message": message}]
    return manifest(CLUSTER_ADDON, "of-one", "fleet", spec={"clusterStack": stack}, status={"conditions": conditions})


@pytest.mark.parametrize(
    ("before", "after", "concerns"),
    [
        (cluster("False"), cluster(), True),
        (cluster("False", "A"), cluster("False", "B"), False),
        (cluster("False", message="a"), cluster("False", message="b"), False),
        (cluster("False", type_="Remediating"), cluster(type_="Remediating"), False),
        (
            cluster("False", type_="TopologyReconciled"),
            cluster("False", "ReconcileFailed", type_="TopologyReconciled"),
            True,
        ),
        (cluster("False", type_="TopologyReconciled"), cluster(type_="TopologyReconciled"), True),
        (cluster("False", type_="RollingOut"), cluster(type_="RollingOut"), True),
        (cluster(), cluster(generation=2), True),
        (cluster(), cluster(labels={"wave": "canary"}), True),
        (cluster(), cluster(annotations={PAUSED_ANNOTATION: ""}), True),
        (cluster(), cluster(annotations={"other": ""}), False),
        (cluster(), cluster(deletionTimestamp="2026-01-01T00:00:00Z"), True),
    ],
)
def test_relevant_change_of_a_cluster(before: Object, after: Object, concerns: bool) -> None:
    assert (relevant_in_cluster(before) != relevant_in_cluster(after)) is concerns


@pytest.mark.parametrize(
    ("before", "after", "concerns"),
    [
        (addon(status="False"), addon(), True),
        (addon("v1"), addon("v2"), True),
        (addon(status="False", message="a"), addon(status="False", message="b"), False),
    ],
)
def test_relevant_change_of_addons(before: Object, after: Object, concerns: bool) -> None:
    assert (relevant_in_addon(before) != relevant_in_addon(after)) is concerns


@pytest.mark.parametrize("changed", [cluster(), addon()])
def test_changes_of_a_namespace_have_one_key(changed: Object) -> None:
    assert TRIGGERS.key(change_event(changed, "update", source="/test")) == Key("fleet", "")
