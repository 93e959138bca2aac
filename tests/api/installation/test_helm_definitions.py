"""Which CRDs a release of the Helm chart contains, by those that the cluster has: `helm` asks a real API server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import crds
from infra.local_control_plane import kubeconfig as kubeconfig_of
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.kube import Client, Key, deleting
from shared.kube.crds import CRD
from tests.support.planes import connected, running_plane

CHART = Path(__file__).parents[3] / "infra/chart"
OURS = Key("", "clusterstacks.clusterstack.x-k8s.io")
OF_CLUSTERCTL = Key("", "providers.clusterctl.cluster.x-k8s.io")
OWNER = "meta.helm.sh/release-name"


def release(helm: Path, kubeconfig: Path) -> str:
    """What `helm install` would install as the release `it` in the namespace `team`."""
    command = [str(helm), "install", "it", str(CHART), "--namespace=team", f"--kubeconfig={kubeconfig}"]
    done = subprocess.run(
        [*command, "--dry-run=server", "--take-ownership"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed(management: Client) -> Iterator[Client]:
    """A cluster with the CRDs of the kustomization, without marks of Helm."""
    crds.install_missing(management, crds.load())
    for key in (OURS, OF_CLUSTERCTL):
        owned_by(management, key, None, None)
    yield management
    owned_by(management, OF_CLUSTERCTL, None, None)


def owned_by(client: Client, key: Key, name: str | None, namespace: str | None) -> None:
    """Marks a CRD as part of a release, and removes what says to keep it."""
    annotations = {OWNER: name, "meta.helm.sh/release-namespace": namespace, "helm.sh/resource-policy": None}
    client.patch(CRD, key, {"metadata": {"annotations": annotations}})


def test_release_has_our_definitions_and_none_that_others_have_installed(
    installed: Client, helm: Path, kubeconfig: Path
) -> None:
    for name, namespace in ((None, None), ("operator", "team"), ("it", "elsewhere")):
        owned_by(installed, OF_CLUSTERCTL, name, namespace)
        definitions = release(helm, kubeconfig)
        assert f"name: {OURS.name}\n" in definitions, "also those that a kustomization has installed"
        assert f"name: {OF_CLUSTERCTL.name}\n" not in definitions
    owned_by(installed, OF_CLUSTERCTL, "it", "team")
    assert f"name: {OF_CLUSTERCTL.name}\n" in release(helm, kubeconfig), "left out, it would be deleted"


def test_providers_of_the_values_are_created_kept_by_upgrades_and_outlive_the_release(
    helm: Path, tmp_path: Path
) -> None:
    """On a cluster whose API server does not serve their kinds yet."""
    core, docker = Key("capi-system", "cluster-api"), Key("docker-infrastructure-system", "docker")
    with running_plane(tmp_path / "plane", groups=()) as plane, connected(plane) as client:

        def run(*arguments: str) -> None:
            command = [str(helm), *arguments, "--namespace=team", f"--kubeconfig={kubeconfig_of(plane)}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
            assert done.returncode == 0, done.stderr

        values = ("--set", "core.cluster-api.version=v1.14.0", "--set", "infrastructure.docker.version=v1.14.0")
        run("install", "it", str(CHART), "--create-namespace", *values)
        before = [client.get(CORE.resource, core), client.get(INFRASTRUCTURE.resource, docker)]
        run("upgrade", "it", str(CHART), *values)
        newer = (*values, "--set", "core.cluster-api.version=v1.14.1")
        run("upgrade", "it", str(CHART), *newer)
        after = [client.get(CORE.resource, core), client.get(INFRASTRUCTURE.resource, docker)]
        assert [obj["metadata"]["uid"] for obj in after] == [obj["metadata"]["uid"] for obj in before]
        assert [obj["spec"]["version"] for obj in after] == ["v1.14.1", "v1.14.0"]
        run("upgrade", "it", str(CHART), "--set", "core.cluster-api.version=v1.14.1")
        run("uninstall", "it")
        assert not deleting(client.get(CORE.resource, core))
        assert not deleting(client.get(INFRASTRUCTURE.resource, docker))


def test_release_adopts_the_definitions_of_a_run(helm: Path, tmp_path: Path) -> None:
    """Helm refused them: "invalid ownership metadata"."""
    with running_plane(tmp_path / "plane", groups=()) as plane, connected(plane) as client:
        crds.install_for_helm(client, crds.load())
        command = [str(helm), "install", "capi-functions", str(CHART), "--namespace=capi-functions"]
        done = subprocess.run(
            [*command, "--create-namespace", f"--kubeconfig={kubeconfig_of(plane)}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        assert client.get(CRD, OURS)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
