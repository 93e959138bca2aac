"""The examples' commands, as their README files write them, and their manifests against a real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from shared.kube import Object
from tests.support.documents import ROOT, Shell, blocks

EXAMPLES = ROOT / "examples"


def test_cluster_stack_is_built_and_rolled_out_to_a_workload_cluster(shell: Shell) -> None:
    build, rollout, look = blocks(EXAMPLES / "cluster-stack" / "README.md")
    output = shell.run(build)
    assert "no findings" in output
    assert "kind: ResourceQuota" in output
    assert "local-example-1-36-v1" in shell.run(rollout)
    output = shell.run(look)
    assert "resourcequota/default" in output
    assert "networkpolicy.networking.k8s.io/pods-only" in output


def test_captured_run_is_replayed_twice(shell: Shell) -> None:
    replay, _record = blocks(EXAMPLES / "captured-run" / "README.md")
    assert shell.run(replay).count(" calls: ") == 2


def test_provider_manifests_are_accepted_without_unknown_fields(
    kubectl: Path, kubeconfig: Path, namespace: str
) -> None:
    document = EXAMPLES / "providers" / "providers.yaml"
    objects: list[Object] = [obj for obj in yaml.safe_load_all(document.read_text()) if obj["kind"] != "Namespace"]
    for obj in objects:
        obj["metadata"]["namespace"] = namespace
    accepted = subprocess.run(
        [str(kubectl), f"--kubeconfig={kubeconfig}", "create", "--dry-run=server", "--validate=strict", "-f", "-"],
        input=yaml.safe_dump_all([*objects]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert accepted.returncode == 0, accepted.stderr
    assert len(accepted.stdout.splitlines()) == len(objects)
