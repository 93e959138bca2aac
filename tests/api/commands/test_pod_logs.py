"""`capi-functions logs` reads the logs of pods by way of a real API server, from a kubelet of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import NODE, POD
from shared.certificates import CertificateAuthority
from shared.kube import Client, Key
from tests.support.http_server import HttpServer, Request, Response
from tests.support.objects import manifest

LABELS = {"app.kubernetes.io/part-of": "capi-functions"}
LOGS = {
    "a": "2026-01-31T12:00:00.1Z 2026-01-31 12:00:00,100 INFO cluster Cluster team/demo update -> 204 1.0ms\n"
    "2026-01-31T12:00:02.1Z 2026-01-31 12:00:02,100 INFO cluster Cluster team/other update -> 204 1.0ms\x1b[2J\n",
    "b": "2026-01-31T12:00:01.1Z 2026-01-31 12:00:01,100 INFO addon_apply ClusterAddon x update -> 204 1ms "
    "cluster=team/demo\n",
}


def answer(request: Request) -> Response:
    name = request.path.partition("?")[0].split("/")[3]
    return Response(body=LOGS[name].encode(), headers={"Content-Type": "text/plain"})


@pytest.fixture
def kubelet(management: Client, namespace: str, tmp_path: Path) -> Iterator[HttpServer]:
    pair = CertificateAuthority.generate("kubelet").issue("127.0.0.1", ips=["127.0.0.1"], server=True)
    (tmp_path / "tls.crt").write_bytes(pair.cert_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    with HttpServer(answer, tmp_path) as server:
        node = management.create(NODE, manifest(NODE, f"node-{namespace}"))
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port}},
        }
        management.patch(NODE, Key("", node["metadata"]["name"]), {"status": status}, subresource="status")
        yield server
        management.delete(NODE, Key("", node["metadata"]["name"]))


def logs(kubeconfig: Path, namespace: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["logs", *arguments, "--kubeconfig", str(kubeconfig), "-n", namespace])


def test_logs_of_pods_are_merged_by_time(
    management: Client, kubeconfig: Path, namespace: str, kubelet: HttpServer
) -> None:
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 1
    assert "there are no pods with the label" in result.stderr
    for name in LOGS:
        spec = {"nodeName": f"node-{namespace}", "containers": [{"name": "functions", "image": "example.com/image:1"}]}
        management.create(POD, manifest(POD, name, namespace, metadata={"labels": LABELS}, spec=spec))
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 0, result.output
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["12:00:00,100", "12:00:01,100", "12:00:02,100"]
    assert "\x1b" not in result.stdout
    assert len(logs(kubeconfig, namespace, "--cluster", "demo").stdout.splitlines()) == 2
    assert len(logs(kubeconfig, namespace, "addon-apply", "--cluster", "demo").stdout.splitlines()) == 1
    assert "is not a function" in logs(kubeconfig, namespace, "nothing").stderr


def test_pod_without_a_log_is_named(management: Client, kubeconfig: Path, namespace: str) -> None:
    spec = {"containers": [{"name": "functions", "image": "example.com/image:1"}]}
    management.create(POD, manifest(POD, "a", namespace, metadata={"labels": LABELS}, spec=spec))
    result = logs(kubeconfig, namespace)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"no log of the pod {namespace}/a functions:")
