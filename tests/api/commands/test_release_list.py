"""`capi-functions release list` on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import CLUSTER, CLUSTER_STACK_RELEASE
from shared.kube import Client, Key
from tests.support.objects import manifest


def listed(namespace: str, kubeconfig: Path, *arguments: str) -> Result:
    options = ["-n", namespace, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, ["release", "list", *arguments, *options])
    assert result.exit_code == 0, result.output
    return result


def test_classes_that_a_cluster_could_move_to(management: Client, namespace: str, kubeconfig: Path) -> None:
    assert "no releases; ClusterStacks provide them" in listed(namespace, kubeconfig).stderr
    for name in ("docker-demo-1-36-v1", "docker-demo-1-36-v2", "docker-demo-1-34-v1"):
        management.create(CLUSTER_STACK_RELEASE, manifest(CLUSTER_STACK_RELEASE, name, namespace))
    status = {"ready": True, "kubernetesVersion": "v1.36.2"}
    key = Key(namespace, "docker-demo-1-36-v2")
    management.patch(CLUSTER_STACK_RELEASE, key, {"status": status}, subresource="status")
    topology = {"classRef": {"name": "docker-demo-1-36-v1"}, "version": "v1.36.2"}
    management.create(CLUSTER, manifest(CLUSTER, "demo", namespace, spec={"topology": topology}))
    assert len(listed(namespace, kubeconfig).stdout.splitlines()) == 4
    _, present, newer = listed(namespace, kubeconfig, "demo").stdout.splitlines()
    assert present.split() == ["*", namespace, "docker-demo-1-36-v1", "-", "False"]
    assert newer.split() == [namespace, "docker-demo-1-36-v2", "v1.36.2", "True"]
    found = json.loads(listed(namespace, kubeconfig, "demo", "-o", "json").stdout)
    assert [(each["name"], each["is_current"]) for each in found] == [
        ("docker-demo-1-36-v1", True),
        ("docker-demo-1-36-v2", False),
    ]
