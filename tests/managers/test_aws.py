"""The manager of Cluster API's provider for AWS in a local run, up to where it needs credentials of the cloud.

It is built from its Go module, once, which takes a quarter of an hour of CPU time. Its components are those of the
kustomization in the module, since the ones of a release are not in it.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from infra.local_control_plane import go_build
from infra.local_control_plane.binaries import locate
from shared.api.conditions import get_condition
from shared.kube import Object
from tests.support import processes
from tests.support.command_line import await_end, run
from tests.support.real_providers import CURRENT, DOWNLOADS, components
from tests.support.until import until

MODULE, VERSION = "sigs.k8s.io/cluster-api-provider-aws/v2", "v2.13.0"
GROUP = "infrastructure.cluster.x-k8s.io"


def _kubectl(kubectl: Path, folder: Path, *arguments: str, given: Object | None = None) -> tuple[int, str]:
    command = [str(kubectl), "--kubeconfig", str(folder / "management.kubeconfig"), *arguments]
    done = processes.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _cluster(name: str, **spec: object) -> list[Object]:
    reference = {"apiGroup": GROUP, "kind": "AWSCluster", "name": name}
    metadata = {"name": name, "namespace": "default"}
    return [
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": metadata,
            "spec": {"infrastructureRef": reference},
        },
        {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "AWSCluster",
            "metadata": metadata,
            "spec": {"region": "eu-central-1", **spec},
        },
    ]


@pytest.mark.timeout(3600)
def test_manager_serves_its_webhooks_and_reports_missing_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # it asks nobody for credentials
    monkeypatch.setenv("AWS_B64ENCODED_CREDENTIALS", "W2RlZmF1bHRdCg==")  # a file without credentials
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    go_build.of_module("infrastructure-aws-manager", f"{MODULE}@{VERSION}", print)
    source, _ = go_build.source_of(MODULE, VERSION, print)
    kubectl, folder, given = locate(["kubectl"], progress=print)["kubectl"], tmp_path / "run", tmp_path / "given"
    given.mkdir()
    rendered = processes.run(
        [str(kubectl), "kustomize", str(source / "config/default")], capture_output=True, check=True
    )
    (given / "aws-infrastructure-components.yaml").write_bytes(rendered.stdout)
    release = components(CURRENT) / DOWNLOADS / CURRENT
    for name, file in {
        "core-components.yaml": "core-components.yaml",
        "kubeadm-bootstrap-components.yaml": "bootstrap-components.yaml",
        "kubeadm-control-plane-components.yaml": "control-plane-components.yaml",
    }.items():
        (given / name).symlink_to(release / file)
    call = partial(_kubectl, kubectl, folder)

    def condition() -> Object | None:
        _, found = call("get", "awscluster", "one", "-o", "jsonpath={.status.conditions}")
        return get_condition(json.loads(found or "[]"), "VpcReady")

    try:
        manager = f"--manager=infrastructure-aws={MODULE}@{VERSION}"
        done = run("up", "--detach", "--dir", folder, manager, f"--components={given}")
        assert done.returncode == 0, done.stdout + done.stderr
        wrong = {"apiVersion": "v1", "kind": "List", "items": _cluster("bad", sshKeyName="a\tb")}
        assert "Name is invalid. Must be specified in ASCII" in call("create", "-f", "-", given=wrong)[1]
        code, output = call("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": _cluster("one")})
        assert code == 0, output
        found = until(condition, "the condition", details=lambda: call("get", "awscluster", "one", "-o", "yaml")[1])
        assert (found["status"], found["reason"]) == ("False", "VpcReconciliationFailed")
        assert "failed to refresh cached credentials" in found["message"]
        _, defaulted = call("get", "awscluster", "one", "-o", "jsonpath={.spec.controlPlaneLoadBalancer.scheme}")
        assert defaulted == "internet-facing"
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)
