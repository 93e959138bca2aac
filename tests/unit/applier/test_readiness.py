"""Readiness of each kind by its status."""

from __future__ import annotations

from typing import Any

import pytest

from shared.applier.readiness import incomplete_reason, unready_reason
from shared.kube import Object


def make(api_version: str, kind: str, spec: dict[str, Any], status: dict[str, Any], **metadata: Any) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": 2, **metadata},
        "spec": spec,
        "status": status,
    }


def condition(type_: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status, **more}]}


SEEN = {"observedGeneration": 2}
DEADLINE = {"reason": "ProgressDeadlineExceeded", "message": "too slow"}


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (make("v1", "ConfigMap", {}, {}), ""),
        (make("v1", "ConfigMap", {}, {}, deletionTimestamp="now"), "being deleted"),
        (make("apps/v1", "Deployment", {"replicas": 2}, {}), "not observed by its controller"),
        (make("apps/v1", "Deployment", {"replicas": 2}, {"observedGeneration": 1}), "latest generation"),
        (make("apps/v1", "Deployment", {"replicas": 2}, SEEN), "0 of 2 replicas updated"),
        (make("apps/v1", "Deployment", {"replicas": 2}, {**SEEN, "updatedReplicas": 2}), "0 of 2 replicas available"),
        (make("apps/v1", "Deployment", {}, {**SEEN, "updatedReplicas": 1, "availableReplicas": 1}), ""),
        (
            make("apps/v1", "Deployment", {}, {**SEEN, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}),
            "1 of its former replicas",
        ),
        (make("apps/v1", "Deployment", {"replicas": 0}, SEEN), ""),
        (make("apps/v1", "Deployment", {"replicas": 0}, {**SEEN, "replicas": 1}), "1 of its former replicas"),
        (make("apps/v1", "Deployment", {}, {**SEEN, **condition("Progressing", "False", **DEADLINE)}), "too slow"),
        (make("apps/v1", "StatefulSet", {"replicas": 3}, {**SEEN, "readyReplicas": 1}), "1 of 3 replicas ready"),
        (
            make("apps/v1", "StatefulSet", {"replicas": 3}, {**SEEN, "readyReplicas": 3, "updatedReplicas": 1}),
            "1 of 3 replicas updated",
        ),
        (
            make(
                "apps/v1",
                "StatefulSet",
                {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
                {**SEEN, "readyReplicas": 3, "updatedReplicas": 1},
            ),
            "",
        ),
        (
            make(
                "apps/v1",
                "StatefulSet",
                {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
                {**SEEN, "readyReplicas": 1},
            ),
            "",
        ),
        (make("apps/v1", "StatefulSet", {"replicas": 0}, SEEN), ""),
        (
            make(
                "apps/v1",
                "StatefulSet",
                {"replicas": 1, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
                {**SEEN, "readyReplicas": 1},
            ),
            "",
        ),
        (make("apps/v1", "StatefulSet", {}, SEEN), "0 of 1 replicas ready"),
        (make("apps/v1", "StatefulSet", {}, {**SEEN, "readyReplicas": 1, "updatedReplicas": 1}), ""),
        (make("apps/v1", "StatefulSet", {"replicas": 0}, {}), "not observed by its controller"),
        (make("apps/v1", "DaemonSet", {}, {}), "not observed by its controller"),
        (make("apps/v1", "DaemonSet", {}, SEEN), ""),
        (make("apps/v1", "DaemonSet", {}, {**SEEN, "desiredNumberScheduled": 0}), ""),
        (make("apps/v1", "DaemonSet", {}, {**SEEN, "desiredNumberScheduled": 2}), "0 of 2 replicas updated"),
        (
            make("apps/v1", "DaemonSet", {}, {**SEEN, "desiredNumberScheduled": 2, "numberAvailable": 2}),
            "0 of 2 replicas updated",
        ),
        (
            make(
                "apps/v1",
                "DaemonSet",
                {"updateStrategy": {"type": "OnDelete"}},
                {**SEEN, "desiredNumberScheduled": 2, "numberAvailable": 2},
            ),
            "",
        ),
        (
            make(
                "apps/v1",
                "DaemonSet",
                {},
                {**SEEN, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2},
            ),
            "",
        ),
        (
            make("apps/v1", "DaemonSet", {}, {**SEEN, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}),
            "0 of 2 replicas available",
        ),
        (make("batch/v1", "Job", {}, {}), "has not completed"),
        (make("batch/v1", "Job", {}, condition("Complete")), ""),
        (make("batch/v1", "Job", {}, condition("Failed", message="backoff")), "failed: backoff"),
        (make("batch/v1", "Job", {}, condition("Failed", reason="BackoffLimit")), "failed: BackoffLimit"),
        (make("batch/v1", "Job", {}, condition("Failed")), "failed: no reason given"),
        (make("batch/v1", "Job", {}, condition("Failed", "False", message="backoff")), "has not completed"),
        (make("batch/v1", "Job", {}, condition("Complete", "False")), "has not completed"),
        (make("batch/v1", "Job", {"suspend": True}, {}), ""),
        (make("batch/v1", "Job", {"suspend": True}, condition("Failed", message="backoff")), ""),
        (make("v1", "PersistentVolumeClaim", {}, {}), "is Pending, not Bound"),
        (make("v1", "Pod", {}, {}), "is Pending"),
        (make("v1", "Pod", {}, {"phase": "Succeeded", **condition("Ready", "False")}), ""),
        (make("v1", "PersistentVolumeClaim", {}, {"phase": "Pending"}), "not Bound"),
        (make("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}), ""),
        (make("v1", "Pod", {}, {"phase": "Running", **condition("Ready")}), ""),
        (make("v1", "Pod", {}, {"phase": "Running"}), "is Running"),
        (make("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, {}), "not Established"),
        (make("apiregistration.k8s.io/v1", "APIService", {}, condition("Available", "False", message="m")), ": m"),
        (make("example.com/v1", "Thing", {}, {}), ""),
        (make("example.com/v1", "Thing", {}, condition("Ready", "False", message="soon")), "is not Ready: soon"),
        (make("example.com/v1", "Thing", {}, condition("Available")), ""),
        (make("example.com/v1", "Thing", {}, condition("Available", "False")), "is not Available"),
        (make("example.com/v1", "Thing", {}, condition("Synced", "False")), ""),
        (make("example.com/v1", "Deployment", {"replicas": 2}, {}), ""),
        (make("example.com/v1", "Thing", {}, {"conditions": "garbage"}), ""),
    ],
)
def test_unready_reason_of_each_kind(obj: Object, words: str) -> None:
    found = unready_reason(obj)
    assert words in found
    assert bool(found) is bool(words)


def test_only_jobs_and_pods_can_be_incomplete() -> None:
    assert incomplete_reason(make("apps/v1", "Deployment", {}, {})) == ""
    assert incomplete_reason(make("batch/v1", "Job", {}, {})) == "has not completed yet"
    assert incomplete_reason(make("batch/v1", "Job", {}, condition("Complete"))) == ""
    assert incomplete_reason(make("v1", "Pod", {}, {"phase": "Succeeded"})) == ""
    assert incomplete_reason(make("v1", "Pod", {}, {})) == "is Pending"
    assert incomplete_reason(make("v1", "Pod", {}, {"phase": "Running", **condition("Ready")})) == "is Running"
