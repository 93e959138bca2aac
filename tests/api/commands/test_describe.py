"""`capi-functions describe` against a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.names import ADDON_PREFIX
from shared.api.provider import CORE
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    KIND_CLUSTER,
)
from shared.helm_proxies.names import HCP_NAME_LABEL
from shared.kube import Key, Object, owner_reference
from tests.support import processes
from tests.support.command_line import CLI
from tests.support.objects import manifest
from tests.support.releases import write_release
from tests.support.world import World

ADDON = f"{ADDON_PREFIX}demo"


@pytest.fixture
def describe(world: World, kubeconfig: Path, tmp_path: Path) -> Describe:
    return Describe(world.namespace, kubeconfig, tmp_path / "no-run")


class Describe:
    def __init__(self, namespace: str, kubeconfig: Path, directory: Path) -> None:
        self._options = ["-n", namespace, "--kubeconfig", str(kubeconfig), "--dir", str(directory)]

    def __call__(self, *arguments: str, kind: str = "cluster", name: str = "demo") -> Result:
        return CliRunner().invoke(app, ["describe", kind, name, *self._options, *arguments])

    def json(self, kind: str = "cluster", name: str = "demo") -> Object:
        result = self("--output", "json", kind=kind, name=name)
        assert result.exit_code == 0, result.output
        found: Object = json.loads(result.stdout)
        return found

    def text(self, kind: str = "cluster", name: str = "demo") -> str:
        result = self(kind=kind, name=name)
        assert result.exit_code == 0, result.output
        return str(result.stdout)


def test_unknown_cluster_is_an_error(describe: Describe) -> None:
    result = describe(name="nobody")
    assert result.exit_code == 1
    assert "does not exist; choose the namespace" in result.output
    assert "-n" in result.output


def test_cluster_without_addon_and_references_is_described(world: World, describe: Describe) -> None:
    world.cluster()
    found = describe.json()
    assert found["cluster"]["name"] == "demo"
    assert json.loads(describe("--json").stdout)["cluster"]["name"] == "demo"
    assert found["addon"]["state"] == "absent"
    assert f"ClusterAddon {world.namespace}/cluster-addon-demo does not exist" in describe.text()


def test_kubeconfig_of_the_environment_is_used(
    world: World, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster may be in the second of several files; the namespace is that of its context."""
    world.cluster()
    document = yaml.safe_load(kubeconfig.read_text())
    document["contexts"][0]["context"]["namespace"] = world.namespace
    (other := tmp_path / "other").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "absent"), str(other)]))
    result = CliRunner().invoke(app, ["describe", "cluster", "demo"])
    assert result.exit_code == 0, result.output
    assert f"Cluster {world.namespace}/demo" in result.stdout


def test_addon_is_described_from_waiting_to_applied(world: World, describe: Describe) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name, policy={"drift": "report"})
    world.settle()
    found = describe.json()
    assert found["addon"]["waitingFor"]["type"] == "ClusterReady"
    assert "demo-kubeconfig" in found["addon"]["waitingFor"]["message"]
    assert found["addon"]["waitingFor"]["for"].endswith("s")
    world.secret()
    world.settle()
    found = describe.json()
    assert found["addon"]["ready"] is True
    assert "waitingFor" not in found["addon"]
    assert found["versions"] == {"wanted": name, "applied": name, "addons": "v1"}
    assert found["addon"]["inventory"]["counts"]["synced"] == 1
    assert found["addon"]["history"][0]["clusterStack"] == name
    assert found["policy"]["annotations"]["drift"] == {"value": "report", "from": "Cluster"}
    assert found["release"]["state"] == "absent"
    text = describe.text()
    assert "objects: 1 in all: 1 synced" in text
    assert "drift: report (on the Cluster)" in text


def test_class_of_no_cluster_stack_is_not_waited_for(world: World, describe: Describe) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    world.cluster("plain")
    world.settle()
    found = describe.json()
    addon = found["addon"]
    assert addon["ready"] is False
    assert "waitingFor" not in addon
    assert "NoClusterStack" in [event["reason"] for event in found["events"]]
    assert "class plain does not belong to a cluster stack" in describe.text()


def test_infrastructure_and_control_plane_are_described(world: World, describe: Describe) -> None:
    kind = {
        "apiVersion": KIND_CLUSTER.api_version,
        "kind": "KINDCluster",
        "metadata": {"name": "demo", "namespace": world.namespace},
        "spec": {"clusterName": "demo"},
    }
    world.client.create(KIND_CLUSTER, kind)
    name = write_release(world.releases, "v1", [world.map("a")])
    release = {
        "apiVersion": CLUSTER_STACK_RELEASE.api_version,
        "kind": "ClusterStackRelease",
        "metadata": {"name": name, "namespace": world.namespace},
    }
    world.client.create(CLUSTER_STACK_RELEASE, release)
    world.cluster(
        name,
        infrastructureRef={"apiGroup": KIND_CLUSTER.group, "kind": "KINDCluster", "name": "demo"},
        controlPlaneRef={"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "demo"},
    )
    found = describe.json()
    assert found["infrastructure"]["name"] == "demo"
    assert found["controlPlane"]["state"] == "failed"
    assert "is its CRD installed" in found["controlPlane"]["error"]
    assert found["release"]["name"] == name
    text = describe.text()
    assert "infrastructure: KINDCluster" in text
    assert f"KubeadmControlPlane {world.namespace}/demo cannot be read" in text


def test_no_secret_value_is_shown(world: World, describe: Describe) -> None:
    metadata = {"name": "token", "namespace": world.namespace}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hunter2"}}
    broken = {**secret, "metadata": {**metadata, "name": "broken"}, "data": {"other": "hunter2, not base64!"}}
    world.cluster(write_release(world.releases, "v1", [secret, broken]))
    world.secret()
    world.settle()
    found = describe.json()
    assert found["addon"]["inventory"]["failing"][0]["object"] == f"Secret {world.namespace}/broken"
    for shown in (json.dumps(found), describe.text()):
        assert "hunter2" not in shown
        assert "aHVudGVyMg" not in shown
    assert world.client.get(CLUSTER, Key(world.namespace, "demo"))


def test_addon_is_described_with_its_reason_and_remedy(world: World, describe: Describe) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    found = describe.json("addon", ADDON)
    assert (found["ready"], found["reason"]) == ("False", "ControlPlaneNotReady")
    assert "describe" in found["toDo"]
    assert [one["kind"] for one in found["objects"]] == ["Cluster"]
    text = describe.text("addon", ADDON)
    assert "waiting for " in text
    assert "to do: wait; " in text
    world.secret()
    world.settle()
    text = describe.text("addons", ADDON)
    assert "ready" in text.splitlines()[1]
    assert "objects: 1 in all: 1 synced" in text
    assert "to do: wait" not in text


def test_objects_of_other_kinds_are_described_with_what_belongs_to_them(world: World, describe: Describe) -> None:
    client, namespace = world.client, world.namespace
    selector = {"clusterSelector": {"matchLabels": {"env": "test"}}}
    chart = {"chartName": "cilium", "repoURL": "https://charts.example", "version": "1.2.3"}
    proxy = client.create(HELM_CHART_PROXY, manifest(HELM_CHART_PROXY, "cni", namespace, spec={**chart, **selector}))
    client.create(
        HELM_RELEASE_PROXY,
        manifest(
            HELM_RELEASE_PROXY,
            "cni-demo",
            namespace,
            metadata={"labels": {HCP_NAME_LABEL: "cni"}, "ownerReferences": [owner_reference(proxy)]},
            spec={**chart, "clusterRef": {"name": "demo", "kind": "Cluster"}},
        ),
    )
    sources = [{"kind": "ConfigMap", "name": "a"}]
    spec = {"resources": sources, **selector}
    client.create(CLUSTER_RESOURCE_SET, manifest(CLUSTER_RESOURCE_SET, "base", namespace, spec=spec))
    entry = {"clusterResourceSetName": "base", "resources": [{**sources[0], "applied": False}]}
    binding = {"clusterName": "demo", "bindings": [entry]}
    client.create(CLUSTER_RESOURCE_SET_BINDING, manifest(CLUSTER_RESOURCE_SET_BINDING, "demo", namespace, spec=binding))
    stack_spec = {"provider": "docker", "name": "demo", "kubernetesVersion": "1.36", "noProvider": True}
    stack = client.create(CLUSTER_STACK, manifest(CLUSTER_STACK, "demo", namespace, spec=stack_spec))
    release = "docker-demo-1-36-v1"
    owners = {"ownerReferences": [owner_reference(stack)]}
    client.create(CLUSTER_STACK_RELEASE, manifest(CLUSTER_STACK_RELEASE, release, namespace, metadata=owners))
    world.cluster(release)
    client.create(CORE.resource, manifest(CORE.resource, "cluster-api", namespace, spec={"version": "v1.13.0"}))

    related = {
        ("chart", "cni"): [("HelmReleaseProxy", "cni-demo")],
        ("helm-release", "cni-demo"): [("HelmChartProxy", "cni")],
        ("set", "base"): [("Cluster", "demo")],
        ("stack", "demo"): [("ClusterStackRelease", release)],
        ("release", release): [("Cluster", "demo")],
        ("provider", "cluster-api"): [],
    }
    for (kind, name), expected in related.items():
        found = describe.json(kind, name)
        assert (found["name"], found["ready"]) == (name, "Unknown")
        assert [(one["kind"], one["name"]) for one in found.get("objects", [])] == expected
        assert "problem" not in found
        text = describe.text(kind, name)
        assert f"{namespace}/{name}" in text.splitlines()[0]
        assert all(f"{one} {namespace}/{other}" in text for one, other in expected)
    assert "not applied: ConfigMap a" in describe.text("set", "base")


def test_object_that_does_not_exist_is_an_error(describe: Describe) -> None:
    result = describe(kind="chart", name="nothing")
    assert result.exit_code == 1
    assert "nothing does not exist in the namespace" in result.output


def test_watch_prints_lines_of_changes_into_a_pipe(world: World, kubeconfig: Path, describe: Describe) -> None:
    world.cluster()
    command = [*CLI, "describe", "cluster", "demo", "-n", world.namespace, "--kubeconfig", str(kubeconfig), "--watch"]
    with processes.start(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout
            lines = iter(watching.stdout.readline, "")
            assert f"Cluster {world.namespace}/demo" in next(lines)
            condition = {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "no quota"}
            status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
            world.client.patch(CLUSTER, Key(world.namespace, "demo"), {"status": status}, subresource="status")
            assert "Cluster demo Available: False NotAvailable: no quota\n" in lines
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
    assert describe("--watch", "-o", "json").exit_code == 2
