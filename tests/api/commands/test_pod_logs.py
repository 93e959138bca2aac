"""`capi-functions logs` reads the logs of pods by way of a real API server, from a kubelet of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import POD
from shared.kube import Client
from tests.support.kubelet import pod, serving_logs

LOGS = {
    "a": "2026-01-31T12:00:00.1Z 2026-01-31 12:00:00,100 INFO cluster Cluster team/demo update -> 204 1.0ms\n"
    "2026-01-31T12:00:02.1Z 2026-01-31 12:00:02,100 INFO cluster Cluster team/other update -> 204 1.0ms\x1b[2J\n",
    "b": "2026-01-31T12:00:01.1Z 2026-01-31 12:00:01,100 INFO addon_apply ClusterAddon x update -> 204 1ms "
    "cluster=team/demo\n",
}


@pytest.fixture
def kubelet(management: Client, namespace: str, tmp_path: Path) -> Iterator[None]:
    with serving_logs(management, namespace, tmp_path, LOGS):
        yield


def logs(kubeconfig: Path, namespace: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["logs", *arguments, "--kubeconfig", str(kubeconfig), "-n", namespace])


def test_logs_of_pods_are_merged_by_time(management: Client, kubeconfig: Path, namespace: str, kubelet: None) -> None:
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 1
    assert "there are no pods with the label" in result.stderr
    for name in LOGS:
        management.create(POD, pod(namespace, name))
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 0, result.output
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["12:00:00,100", "12:00:01,100", "12:00:02,100"]
    assert "\x1b" not in result.stdout
    assert len(logs(kubeconfig, namespace, "--cluster", "demo").stdout.splitlines()) == 2
    assert len(logs(kubeconfig, namespace, "addon-apply", "--cluster", "demo").stdout.splitlines()) == 1
    assert "is not a function" in logs(kubeconfig, namespace, "nothing").stderr


def test_pod_without_a_log_is_named(management: Client, kubeconfig: Path, namespace: str) -> None:
    management.create(POD, pod(namespace, "a", runs=False))
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"no log of the pod {namespace}/a functions:")
