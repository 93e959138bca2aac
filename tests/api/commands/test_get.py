"""`capi-functions get` on a real API server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from infra.cli.main import app
from infra.operations.listing import KINDS
from shared.api.resources import CLUSTER_RESOURCE_SET, HELM_CHART_PROXY, SECRET
from shared.kube import Key
from tests.support.objects import manifest
from tests.support.releases import write_release
from tests.support.world import World

Get = Callable[..., Result]


@pytest.fixture
def get(world: World, kubeconfig: Path, tmp_path: Path) -> Get:
    def invoke(*arguments: str) -> Result:
        options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig)]
        result = CliRunner().invoke(app, ["get", *arguments, *options])
        assert result.exit_code == 0, result.output
        return result

    return invoke


def test_clusters_are_listed_with_the_reason_of_their_addons(world: World, get: Get) -> None:
    assert f"no clusters in the namespace {world.namespace}" in get("clusters").stderr
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(name)
    world.settle()
    heads, line = get("clusters").stdout.splitlines()
    assert heads.split() == ["NAME", "KUBERNETES", "CLASS", "APPLIED", "READY", "AGE", "REASON"]
    assert name in line
    assert "False" in line
    assert "ControlPlaneNotReady" in line
    world.secret()
    world.settle()
    [_, line] = get("cluster", "demo").stdout.splitlines()
    assert line.count(name) == 2
    assert "ControlPlaneNotReady" not in line
    [_, addon] = get("addons", "-o", "wide").stdout.splitlines()
    assert "True" in addon
    assert "v1" in addon.split()


def test_formats_for_programs(world: World, get: Get) -> None:
    world.cluster()
    assert get("clusters", "-o", "name").stdout == "cluster.cluster.x-k8s.io/demo\n"
    listed = json.loads(get("clusters", "-o", "json").stdout)
    assert (listed["kind"], len(listed["items"])) == ("List", 1)
    named = yaml.safe_load(get("clusters", "demo", "-o", "yaml").stdout)
    assert named["metadata"]["name"] == "demo"
    assert "managedFields" not in named["metadata"]
    assert get("clusters", "-l", "no=such", "-o", "name").stdout == ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_in_all_namespaces(get: Get, kind: str) -> None:
    get(kind, "-A")


def test_charts_and_sets_are_listed_with_their_reasons(world: World, get: Get) -> None:
    selector = {"clusterSelector": {"matchLabels": {"env": "test"}}}
    chart = {"chartName": "cilium", "repoURL": "https://charts.example", "version": "1.2.3", **selector}
    resources = [{"kind": "ConfigMap", "name": "cni"}]
    for resource, spec in ((HELM_CHART_PROXY, chart), (CLUSTER_RESOURCE_SET, {"resources": resources, **selector})):
        world.client.create(resource, manifest(resource, "cni", world.namespace, spec=spec))
    [_, line] = get("charts").stdout.splitlines()
    assert line.split()[:5] == ["cni", "cilium", "1.2.3", "0", "Unknown"]
    assert "NotReconciled" in line
    [_, line] = get("sets").stdout.splitlines()
    assert line.split()[:4] == ["cni", "ApplyOnce", "1", "Unknown"]
    assert "ResourcesApplied" in line


def test_names_that_do_not_exist_are_an_error(world: World, kubeconfig: Path) -> None:
    options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, ["get", "clusters", "nobody", *options])
    assert result.exit_code == 1
    assert "nobody does not exist in the namespace" in result.stderr
    result = CliRunner().invoke(app, ["get", "clusters", "--watch", "-o", "json", *options])
    assert result.exit_code == 2


def test_kubeconfig_of_a_cluster_has_only_inline_credentials(world: World, kubeconfig: Path, get: Get) -> None:
    world.cluster()
    options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, ["get", "kubeconfig", "demo", *options])
    assert result.exit_code == 1
    assert "demo-kubeconfig with the kubeconfig" in result.stderr
    world.secret()
    written = yaml.safe_load(get("kubeconfig", "demo").stdout)
    assert written["current-context"] == "demo"
    assert written["clusters"][0]["cluster"]["server"] == world.client.host
    evil = {**written, "users": [{"name": "demo", "user": {"exec": {"command": "/bin/sh"}}}]}
    value = base64.b64encode(json.dumps(evil).encode()).decode()
    world.client.patch(SECRET, Key(world.namespace, "demo-kubeconfig"), {"data": {"value": value}})
    result = CliRunner().invoke(app, ["get", "kubeconfig", "demo", *options])
    assert result.exit_code == 1
    assert "/bin/sh" not in result.output
