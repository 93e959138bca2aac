"""Which objects a sweep sends again."""

from __future__ import annotations

import pytest

from functions.sweep.function import unsettled
from shared.kube import Object


def cluster(phase: str, **conditions: str) -> Object:
    listed = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return {"kind": "Cluster", "metadata": {"name": "demo"}, "status": {"phase": phase, "conditions": listed}}


@pytest.mark.parametrize(
    ("obj", "sent"),
    [
        (cluster("Provisioned"), False),
        (cluster("Provisioned", InfrastructureReady="True", ControlPlaneAvailable="True"), False),
        (cluster("Provisioned", InfrastructureReady="False"), True),
        (cluster("Provisioned", InfrastructureReady="True", ControlPlaneAvailable="Unknown"), True),
        (cluster("Provisioned", TopologyReconciled="False"), False),
        (cluster("Pending"), True),
    ],
)
def test_a_cluster_is_sent_again_until_what_it_refers_to_is_well(obj: Object, sent: bool) -> None:
    assert list(unsettled([obj])) == ([obj] if sent else [])
