"""Cluster API's real providers in a local run, where no pods run."""

from __future__ import annotations

import itertools
import json
import re
import socket
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import urlsplit

import pytest

from infra.cli.demo import FOLDER
from infra.local_control_plane import ports
from infra.local_control_plane.binaries import EXECUTABLES, VARIABLES, locate
from infra.operations.providers import local_managers
from shared.api.conditions import is_true
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, PROVIDER_LABEL
from shared.kube import Key, Object, dig
from tests.support import processes
from tests.support.command_line import await_end, run
from tests.support.live_core import DOCKER_MANAGER
from tests.support.packages import package_of
from tests.support.ports import exclusive
from tests.support.real_providers import CURRENT, DOWNLOADS, components, in_memory_cluster, reduced, repository
from tests.support.until import until

DOCKER_FILE = "infrastructure-components-development.yaml"
CLUSTERS = "crd/clusters.cluster.x-k8s.io"


def succeeds(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _kubectl(kubectl: Path, folder: Path, *arguments: str, given: Object | None = None) -> CompletedProcess[str]:
    """Runs kubectl in the run of a folder; `given` is the object in its standard input."""
    command = [str(kubectl), "--kubeconfig", str(folder / "management.kubeconfig"), *arguments]
    return processes.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)


def _kubectl_output(kubectl: Path, folder: Path, *arguments: str, given: Object | None = None) -> str:
    done = _kubectl(kubectl, folder, *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_clusters_can_be_written_after_installation_and_restart(
    tmp_path: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    kubectl_output = partial(_kubectl_output, kubectl, folder)

    def definition() -> tuple[str, Object]:
        """Returns the provider of the CRD of Cluster, and the CRD."""
        found = json.loads(kubectl_output("get", CLUSTERS, "-o", "json"))
        return dig(found, ("metadata", "labels", PROVIDER_LABEL), ""), found["spec"]

    (tmp_path / "repository").mkdir()
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(repository(tmp_path / "repository", CURRENT, release=reduced)))
    wanted = (f"--core=cluster-api:{CURRENT}", f"--infrastructure=docker:{CURRENT}")
    implied = (f"--bootstrap=kubeadm:{CURRENT}", f"--control-plane=kubeadm:{CURRENT}")
    succeeds("provider", "export", *wanted, *implied, "--to", tmp_path / "exported")
    monkeypatch.delenv("CLUSTERCTL_CONFIG")
    try:
        succeeds("up", "--dir", folder, "--detach")
        assert definition()[0] == "", "a run brings a definition of its own"
        kubectl_output("apply", "--server-side", "-f", str(tmp_path / "exported"))
        output = " ".join(succeeds("provider", "init", "--dir", folder, *wanted, "--timeout=300").split())
        assert "are installed without webhooks" in output
        assert "all are ready" in output
        brought = definition()
        assert brought[0] == "cluster-api"

        kubectl_output("apply", "-f", str(FOLDER / "cluster.yaml"))
        succeeds("down", "--dir", folder)
        succeeds("up", "--dir", folder, "--detach")
        assert definition() == brought
        assert "clusters.cluster.x-k8s.io is not replaced: provider cluster-api" in (folder / "logs/up.log").read_text()
        kubectl_output("annotate", "cluster", "demo", "example.com/written=again")
        kubectl_output("get", "clusters.v1beta1.cluster.x-k8s.io", "demo")
        kubectl_output("wait", "cluster", "demo", "--for=jsonpath={.status.phase}=Provisioned", "--timeout=300s")
        kubectl_output("delete", "cluster", "demo", "--timeout=300s")
        until(
            lambda: kubectl_output("get", "clusters,kindclusters,clusteraddons", "-o", "name") == "", "the Cluster gone"
        )
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)


def use_nothing_else(folder: Path, environment: pytest.MonkeyPatch) -> None:
    """Leaves a package as the only place of executables."""
    environment.setenv("CAPI_FUNCTIONS_CACHE", str(folder / "cache"))
    for variable in VARIABLES.values():
        environment.setenv(variable, str(folder / "not-in-the-package"))


@pytest.mark.timeout(1800)  # another test run may use the port of docker's manager
def test_providers_of_a_package_make_a_cluster(tmp_path: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four of the quick start; the Cluster is in the memory of docker's manager."""
    wanted = local_managers.parse("core,kubeadm,docker")
    programs = locate([*EXECUTABLES, "helm", *local_managers.programs(wanted)], progress=print)
    archive = package_of(tmp_path / "cluster-api.zip", programs, components(CURRENT))
    objects = [*itertools.chain(*in_memory_cluster(Key("default", "packaged"), "v1.36.0"))]
    use_nothing_else(tmp_path, monkeypatch)
    folder = tmp_path / "run"
    kubectl_output = partial(_kubectl_output, kubectl, folder)

    def conditions() -> str:
        return kubectl_output("get", "cluster", "packaged", "-o", "jsonpath={.status.conditions}")

    with exclusive(DOCKER_MANAGER):
        try:
            succeeds("up", "--detach", "--dir", folder, "--from", archive, "--providers=core,kubeadm,docker")
            kinds = ",".join(kind.resource.plural for kind in (CORE, BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE))
            found = json.loads(kubectl_output("get", kinds, "-A", "-o", "json"))["items"]
            assert [dig(provider, "status.installedVersion") for provider in found] == [CURRENT] * 4
            kubectl_output("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": objects})
            until(lambda: is_true(json.loads(conditions() or "[]"), "Available"), "Available", details=conditions)
        finally:
            stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)


@pytest.mark.timeout(1800)  # another test run may use the port of docker's manager
def test_given_manager_runs_with_components_of_a_folder(tmp_path: Path, kubectl: Path) -> None:
    """Docker's manager stands in for one that is not pinned: its image has no version, and it stays after a restart."""
    folder, given = tmp_path / "run", tmp_path / "given"
    given.mkdir()
    release = components(CURRENT) / DOWNLOADS / CURRENT
    for name, file in {
        "core-components.yaml": "core-components.yaml",
        "kubeadm-bootstrap-components.yaml": "bootstrap-components.yaml",
        "kubeadm-control-plane-components.yaml": "control-plane-components.yaml",
    }.items():
        (given / name).symlink_to(release / file)
    text, images = re.subn(r"(image: \S+):v\S+", r"\1:dev", (release / DOCKER_FILE).read_text())
    assert images
    (given / "docker-infrastructure-components.yaml").write_text(text)
    program = tmp_path / "mine"
    docker = locate(["infrastructure-docker-manager"], progress=print)["infrastructure-docker-manager"]
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/started\nexec {docker} "$@"\n')
    program.chmod(0o755)
    options = (f"--manager=infrastructure-docker={program}", f"--components={given}", "--providers=docker:v0.7.0")
    kubectl_output = partial(_kubectl_output, kubectl, folder)

    def starts() -> int:
        return (tmp_path / "started").read_text().count("--webhook-cert-dir=")

    def is_available() -> bool:
        deployments = ("get", "deployments", "-n", "docker-infrastructure-system", "-o")
        return kubectl_output(*deployments, "jsonpath={.items[0].status.availableReplicas}") == "1"

    with exclusive(DOCKER_MANAGER):
        try:
            succeeds("up", "--detach", "--dir", folder, *options)
            provider = json.loads(kubectl_output("get", "infrastructureproviders", "-A", "-o", "json"))["items"][0]
            assert dig(provider, "status.installedVersion") == "v0.7.0"
            assert is_available()
            before = starts()
            succeeds("down", "--dir", folder)
            await_end(folder)
            succeeds("up", "--detach", "--dir", folder)
            until(lambda: starts() > before, "started again")
            until(is_available, "available again")
        finally:
            stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)


def test_provider_of_a_package_has_its_webhooks_at_an_address_of_ipv6(
    tmp_path: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a restart, which finds CRDs whose conversion webhook is down, and another program at its port."""
    if not ports.has_address("::1"):
        pytest.skip("this machine has no IPv6 loopback address")
    programs = locate([*EXECUTABLES, "helm", "cluster-api-manager"], progress=print)
    archive = package_of(tmp_path / "cluster-api.zip", programs, components(CURRENT))
    use_nothing_else(tmp_path, monkeypatch)
    folder = tmp_path / "run"
    start = ("up", "--detach", "--dir", folder, "--from", archive, "--ip-family=ipv6")
    kubectl_output = partial(_kubectl_output, kubectl, folder)
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c"}}

    def is_converted() -> bool:
        return _kubectl(kubectl, folder, "get", "clusters.v1beta1.cluster.x-k8s.io", "c").returncode == 0

    try:
        assert f"unpacking {archive}" in " ".join(succeeds(*start, "--providers=core").split())
        state = json.loads((folder / "up.json").read_text())
        assert state["api_server"].startswith("https://[::1]:")
        assert state["settings"]["GITHUB_URL"].startswith("http://127.0.0.1:"), "components come from the package"
        provider = json.loads(kubectl_output("get", "coreproviders", "-A", "-o", "json"))["items"][0]
        assert dig(provider, "status.installedVersion") == CURRENT

        client = dig(json.loads(kubectl_output("get", CLUSTERS, "-o", "json")), "spec.conversion.webhook.clientConfig")
        assert client["url"].startswith("https://[::1]:")
        refused = _kubectl(kubectl, folder, "create", "-f", "-", given=cluster)
        assert "spec: Forbidden: one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology" in refused.stderr
        infrastructure = {"apiVersion": "infrastructure.cluster-k8s.io/v1alpha1", "kind": "KINDCluster", "name": "c"}
        spec = {"paused": True, "infrastructureRef": infrastructure}
        kubectl_output("create", "-f", "-", given={**cluster, "spec": spec})
        assert is_converted()

        succeeds("down", "--dir", folder)
        with socket.create_server(("::1", urlsplit(client["url"]).port or 0), family=socket.AF_INET6):
            succeeds(*start)
            until(is_converted, "converted again")
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)
