"""The reason that a pod gives for not starting."""

from __future__ import annotations

import pytest

from shared.applier.pods import reason_of
from shared.kube import Object

PULL = {"image": "nginx:nope", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
CRASH = {
    "image": "nginx:1",
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 137}},
}
CREATING = {"image": "nginx:1", "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"image": "nginx:1", "state": {"running": {}}}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes available"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, ""),
        ({"containerStatuses": [RUNNING]}, ""),
        ({"containerStatuses": [CREATING]}, ""),
        ({"containerStatuses": [RUNNING, PULL]}, "ImagePullBackOff nginx:nope"),
        ({"containerStatuses": [CRASH]}, "CrashLoopBackOff nginx:1, exit code 137"),
        ({"initContainerStatuses": [PULL], "containerStatuses": [CREATING]}, "ImagePullBackOff nginx:nope"),
        ({"conditions": [UNSCHEDULABLE]}, "Unschedulable: 0/3 nodes available"),
        ({"conditions": [UNSCHEDULABLE | {"status": "True"}]}, ""),
    ],
)
def test_reason_of_a_pod(status: Object, reason: str) -> None:
    assert reason_of({"status": status}) == reason
