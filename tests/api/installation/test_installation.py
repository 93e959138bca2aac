"""The published chart and kustomizations on API servers without nodes: with a Cluster API core, before one, without."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra import version
from infra.local_control_plane import kubeconfig
from infra.packaging import components
from shared.api.conditions import is_true
from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import CLUSTER, CLUSTER_CLASS, CONFIG_MAP, DEPLOYMENT, SECRET
from shared.kube import Client, Key, Object, dig
from shared.kube.crds import CRD, install_definitions
from tests.support.documents import blocks
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.until import until

PROJECT = Path(__file__).parents[3]
CHART = PROJECT / "infra/chart"
NAMESPACE = RELEASE = "capi-functions"
OF_CORE = [Key("", f"{resource.plural}.{resource.group}") for resource in (CLUSTER, CLUSTER_CLASS)]
CORE_VERSION = "v1.14.0"


class Server:
    """An API server without nodes, and the programs that install something there."""

    def __init__(self, folder: Path, helm: Path, kubectl: Path, client: Client) -> None:
        self.folder, self.client = folder, client
        self._programs = {"helm": helm, "kubectl": kubectl}

    def run(self, program: str, *arguments: str, stdin: str | None = None) -> str:
        """Returns the output of helm or kubectl. Fails with its errors."""
        done = self.attempt(program, *arguments, stdin=stdin)
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stderr[-3000:]}"
        return done.stdout

    def attempt(self, program: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs[program]), f"--kubeconfig={kubeconfig(self.folder)}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)

    def release(self, action: str, *settings: str, chart: Path = CHART) -> None:
        """Runs `helm install` or `helm upgrade` with values."""
        chosen = [part for setting in settings for part in ("--set", setting)]
        self.run("helm", action, RELEASE, str(chart), f"--namespace={NAMESPACE}", "--create-namespace", *chosen)

    def uninstall(self) -> None:
        self.run("helm", "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait")

    def apply(self, kustomization: str) -> subprocess.CompletedProcess[str]:
        return self.attempt("kubectl", "apply", "--server-side", "-k", str(PROJECT / "infra/manifests" / kustomization))

    def profile(self) -> str:
        """Returns the profiles of the installation."""
        settings = self.client.get(CONFIG_MAP, Key(NAMESPACE, "capi-functions-installation"))
        return str(settings["data"]["CAPI_FUNCTIONS_PROFILES"])

    def definitions(self) -> dict[str, str]:
        """Returns the resource version of each CRD of Cluster API by name: it changes with any write."""
        return {
            crd["metadata"]["name"]: crd["metadata"]["resourceVersion"]
            for crd in self.client.list(CRD, selector=PROVIDER_LABEL)
        }


@pytest.fixture
def server(tmp_path: Path, helm: Path, kubectl: Path) -> Iterator[Server]:
    """A cluster in which nothing is installed."""
    with running_plane(tmp_path / "plane", groups=[]) as folder, connected(folder) as client:
        yield Server(folder, helm, kubectl, client)


def core() -> list[Object]:
    """Returns the CRDs of the published components of a Cluster API core."""
    folder = components.components(CORE_VERSION, print) / components.DOWNLOADS / CORE_VERSION
    published = yaml.safe_load_all((folder / "core-components.yaml").read_text())
    return [obj for obj in published if obj and obj["kind"] == CRD.kind]


def install_core(server: Server, manager: str = "clusterctl") -> None:
    """Installs the CRDs of a core as clusterctl does, without its pods, which need nodes."""
    install_definitions(server.client, core(), manager=manager)
    assert server.definitions().keys() >= {key.name for key in OF_CORE}


def definition(server: Server, key: Key) -> Object:
    return server.client.get(CRD, key)


def create_cluster(server: Server, name: str) -> None:
    def created() -> Object | None:
        if all(is_true(dig(definition(server, key), "status.conditions"), "Established") for key in OF_CORE):
            return server.client.create(CLUSTER, manifest(CLUSTER, name, "default", spec={"paused": True}))
        return None

    assert until(created, "the API server serves Clusters")


def test_chart_brings_the_cluster_kind_upgrades_it_and_keeps_it(server: Server, tmp_path: Path) -> None:
    older = shutil.copytree(CHART, tmp_path / "older")
    definitions = older / "definitions.yaml"
    definitions.write_text(definitions.read_text().replace("name: ClusterClass", "name: Older"))
    server.release("install", chart=older)
    assert server.profile() == "all"
    create_cluster(server, "demo")
    assert "Older" in columns(server)

    server.release("upgrade", "profile=standalone")
    assert "ClusterClass" in columns(server)
    server.release("upgrade", "profile=addons")
    server.uninstall()
    assert server.client.get(CLUSTER, Key("default", "demo")), "no object goes with the release"
    server.release("install")
    assert server.client.get(CLUSTER, Key("default", "demo"))


def columns(server: Server) -> list[str]:
    """Returns what `kubectl get clusters` prints."""
    storage, *_ = dig(definition(server, OF_CORE[0]), "spec.versions")
    return [column["name"] for column in storage["additionalPrinterColumns"]]


def test_certificate_of_the_hooks_stays_in_an_upgrade(server: Server) -> None:
    def issued() -> Object:
        found: Object = server.client.get(SECRET, Key(NAMESPACE, "cluster-hooks-tls"))["data"]
        return found

    extensions = [crd for crd in core() if crd["spec"]["names"]["kind"] == "ExtensionConfig"]
    install_definitions(server.client, extensions, manager="clusterctl")
    server.release("install", "hooks=true")
    first = issued()
    server.release("upgrade", "hooks=true", "logLevel=DEBUG")
    assert issued() == first
    server.run("kubectl", "delete", "secret", "cluster-hooks-tls", f"--namespace={NAMESPACE}")
    server.release("upgrade", "hooks=true")
    assert issued()["tls.key"] != first["tls.key"]


def test_kustomizations_for_clusters_without_core_bring_the_cluster_kind(server: Server) -> None:
    for name, kustomization in (("first", "profiles/standalone/single"), ("second", "single")):
        done = server.apply(kustomization)
        assert done.returncode == 0, done.stderr
        create_cluster(server, name)


def test_chart_beside_a_core_replaces_nothing_of_it(server: Server) -> None:
    install_core(server)
    before = server.definitions()
    server.release("install")
    assert server.profile() == "addons,providers,kubeconfig"
    for settings in ((), ("profile=all",), ("crds.cluster=true",)):
        server.release("upgrade", *settings)
    server.uninstall()
    assert server.definitions() == before


@pytest.mark.parametrize("manager", ["clusterctl", "kubectl"])
def test_kustomization_beside_a_core_replaces_nothing_of_it(server: Server, manager: str) -> None:
    install_core(server, manager)
    before = server.definitions()
    done = server.apply("profiles/addons-providers-kubeconfig/single")
    assert done.returncode == 0, done.stderr
    assert server.client.get(DEPLOYMENT, Key(NAMESPACE, "capi-functions"))
    if manager != "kubectl":
        done = server.apply("profiles/standalone/single")
        assert done.returncode != 0
        assert f'conflict with "{manager}"' in done.stderr
    assert server.definitions() == before


def test_core_that_comes_later_takes_over_the_cluster_kind(server: Server) -> None:
    server.release("install")
    create_cluster(server, "demo")
    install_core(server)
    before = server.definitions()
    server.release("upgrade")
    assert server.profile() == "addons,providers,kubeconfig"
    server.release("upgrade", "profile=all")
    server.uninstall()
    assert server.definitions() == before
    assert server.client.get(CLUSTER, Key("default", "demo"))


def test_commands_of_the_readme_install_the_project(server: Server, helm: Path, kubectl: Path) -> None:
    """The section `In a cluster`, from where the image is in a registry, as far as that goes without nodes."""
    image, *commands = blocks(PROJECT / "README.md", "In a cluster")
    assert [line.split()[0] for line in image.splitlines()] == ["make", "skopeo"]
    assert [command.split()[0] for command in commands] == ["helm", "kubectl"]
    path = f"{helm.parent}:{kubectl.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig(server.folder)), "PATH": path}
    for command in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=environment,
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        create_cluster(server, command.split()[0])
        images = {
            container["image"]
            for deployment in server.client.list(DEPLOYMENT, NAMESPACE)
            for container in dig(deployment, "spec.template.spec.containers")
        }
        assert images == {f"REGISTRY/capi-functions:{version.current()}"}
        if command.startswith("helm"):
            server.uninstall()
            assert not list(server.client.list(DEPLOYMENT, NAMESPACE))
            server.run("kubectl", "delete", "crds", "--all", "--timeout=60s")
