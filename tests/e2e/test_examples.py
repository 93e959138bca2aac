"""The examples' commands, as their README files write them, and their manifests against a real API server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra.local import crds
from shared.api.resources import CLUSTER, HELM_CHART_PROXY
from shared.kube import Client, Key, Object, Resource, connect
from shared.kube.crds import CRD
from tests.support.documents import ROOT, Shell, blocks
from tests.support.objects import manifest
from tests.support.ports import free_port
from tests.support.stacks import definition
from tests.support.until import until

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


def test_function_of_ones_own_runs_among_the_others_and_alone(shell: Shell) -> None:
    decisions, run, serve, send = blocks(EXAMPLES / "function" / "README.md")
    assert "5 passed" in shell.run(decisions)
    assert "condition met" in shell.run(run)
    port = str(free_port())
    serving = shell.start(serve.replace("8080", port))
    try:
        until(lambda: shell.succeeds(f"curl -s localhost:{port}"), "the function")
        assert re.match(r"HTTP/1.1 204 ", shell.run(send.replace("8080", port)))
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.wait()


def test_charts_are_planned_for_labelled_clusters(
    shell: Shell, management: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    apply, remove = blocks(EXAMPLES / "chart-on-clusters" / "README.md")
    for name in ("demo", "other"):
        management.create(CLUSTER, manifest(CLUSTER, name, namespace, metadata={"labels": {"monitoring": "yes"}}))
    shell.run(own_namespace(kubeconfig, namespace, tmp_path))
    output = shell.run(apply)
    assert re.search(r"^demo +canary ", output, re.MULTILINE), output
    shell.run(remove)
    assert "ingress" not in management.get(CLUSTER, Key(namespace, "demo"))["metadata"]["labels"]
    for proxy in management.list(HELM_CHART_PROXY, namespace):
        management.delete(HELM_CHART_PROXY, Key(namespace, proxy["metadata"]["name"]))


def own_namespace(kubeconfig: Path, namespace: str, folder: Path) -> str:
    """Returns commands that select the namespace in a copy of the kubeconfig."""
    own = folder / "own.kubeconfig"
    own.write_bytes(kubeconfig.read_bytes())
    return f"export KUBECONFIG={own}\nkubectl config set-context --current --namespace={namespace}"


SYNCED = ("examples/gitops/fleet", "infra/manifests/profiles/addons-providers-kubeconfig/single")


@pytest.mark.parametrize("folder", SYNCED)
def test_synced_folders_are_kustomizations(kubectl: Path, folder: str) -> None:
    done = subprocess.run([str(kubectl), "kustomize", str(ROOT / folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "kind:" in done.stdout


@pytest.fixture(scope="module")
def synced_kinds(kubeconfig: Path) -> Iterator[None]:
    """The kinds of Argo CD and Flux, with any content."""
    kinds = [
        definition(Resource("argoproj.io", "v1alpha1", "Application", "applications")),
        definition(Resource("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories")),
        definition(Resource("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")),
    ]
    client = connect.from_kubeconfig(str(kubeconfig))
    crds.install(client, kinds)
    yield
    for kind in kinds:
        client.delete(CRD, Key("", kind["metadata"]["name"]))
    client.close()


MANIFESTS = sorted(
    path
    for folder in ("providers", "chart-on-clusters", "gitops", "cluster-stack")
    for path in (EXAMPLES / folder).glob("**/*.yaml")
    if path.name not in ("csctl.yaml", "kustomization.yaml", "cluster-addon-values.yaml")
    and not any((parent / "Chart.yaml").exists() for parent in path.parents)
)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_manifests_are_accepted_without_unknown_fields(
    kubectl: Path, kubeconfig: Path, namespace: str, synced_kinds: None, path: Path
) -> None:
    objects: list[Object] = [obj for obj in yaml.safe_load_all(path.read_text()) if obj["kind"] != "Namespace"]
    for obj in objects:
        obj["metadata"]["namespace"] = namespace
    assert set(re.findall(r"^ +path: (?:\./)?(\S+)", path.read_text(), re.MULTILINE)) <= set(SYNCED)
    accepted = subprocess.run(
        [str(kubectl), f"--kubeconfig={kubeconfig}", "create", "--dry-run=server", "--validate=strict", "-f", "-"],
        input=yaml.safe_dump_all([*objects]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert accepted.returncode == 0, accepted.stderr
    assert len(accepted.stdout.splitlines()) == len(objects) > 0
