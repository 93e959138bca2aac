"""An installation of an older version is upgraded in the middle of a rollout: chart, kinds and functions."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra import local_control_plane
from shared import bounded_yaml
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, POD, SECRET
from shared.kube import Client, Key, Object, dig
from shared.kube.crds import definitions, install_definitions
from tests.support import processes
from tests.support.objects import manifest, secret
from tests.support.planes import connected, running_plane
from tests.support.releases import config_map, write_release
from tests.support.until import HANGS, until

PROJECT = Path(__file__).parents[2]
OLDER = "1d343d2862abeea67f6b1ec30fba409ebf560f32"
"""A commit from before providers had a Deployment of their own, and before the chart had the Cluster kind."""

ADDON, HOOK, CLUSTER_KEY = Key("default", "cluster-addon-demo"), Key("default", "before"), Key("default", "demo")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the older version."""
    folder = tmp_path_factory.mktemp("older")
    archive = subprocess.run(["git", "archive", OLDER], cwd=PROJECT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this clone has no commit {OLDER}: `git fetch --unshallow` gets it")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    # The package takes in the functions of other folders on the path, which are newer here.
    (folder / "functions/__init__.py").write_text("")
    return folder


@contextmanager
def running(project: Path, kubeconfig: Path, folder: Path, releases: Path) -> Iterator[None]:
    """Runs the functions for addons of the version in the folder `project`, in the block."""
    folder.mkdir()
    output = folder / "output.txt"
    program = (sys.executable, "-c", "from infra.cli.main import app; app()", "run", "--profile=addons")
    options = (f"--kubeconfig={kubeconfig}", f"--releases={releases}", f"--logs={folder / 'logs'}")
    environment = {**os.environ, "PYTHONPATH": str(project)}
    with output.open("wb") as file:
        command = [*program, *options]
        process = processes.start(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=environment)
    try:
        until(lambda: "Ctrl-C ends" in output.read_text() or process.poll() is not None, details=output.read_text)
        assert process.poll() is None, output.read_text()
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def test_older_version_is_upgraded_in_the_middle_of_a_rollout(older: Path, helm: Path, tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    first = write_release(releases, "v1", [config_map("kept", "1"), config_map("dropped")])
    second = write_release(releases, "v2", [hook(), config_map("kept", "2"), config_map("added")])
    with running_plane(tmp_path / "plane", groups=()) as plane, connected(plane) as client:
        kubeconfig = local_control_plane.kubeconfig(plane)

        def release(action: str, project: Path) -> None:
            """Installs or upgrades the chart of a version."""
            command = [str(helm), action, "capi-functions", str(project / "infra/chart"), f"--kubeconfig={kubeconfig}"]
            options = ["--namespace=capi-functions", "--create-namespace", "--set=profile=standalone"]
            done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=HANGS)
            assert done.returncode == 0, done.stderr

        install_cluster_kinds(older, client)
        release("install", older)
        with running(older, kubeconfig, tmp_path / "before", releases):
            choose(client, first)
            client.create(SECRET, kubeconfig_secret(kubeconfig))
            until(
                lambda: is_applied(client, first),
                "the first release",
                details=lambda: client.find(CLUSTER_ADDON, ADDON),
            )
            uid = client.get(CLUSTER_ADDON, ADDON)["metadata"]["uid"]
            choose(client, second)
            until(lambda: client.find(POD, HOOK), "the hook that the rollout waits for")
        release("upgrade", PROJECT)
        assert maps(client) == {"kept": "1", "dropped": "1"}
        with running(PROJECT, kubeconfig, tmp_path / "after", releases):
            client.patch(POD, HOOK, {"status": {"phase": "Succeeded"}}, subresource="status")
            until(lambda: is_applied(client, second), "the rollout", details=lambda: client.find(CLUSTER_ADDON, ADDON))
        assert maps(client) == {"kept": "2", "added": "1"}
        assert client.get(CLUSTER_ADDON, ADDON)["metadata"]["uid"] == uid


def install_cluster_kinds(older: Path, client: Client) -> None:
    """Applies the kinds Cluster and ClusterClass, which the older chart does not have."""
    for path in sorted((older / "infra/crds").glob("cluster.x-k8s.io_*.yaml")):
        install_definitions(client, list(definitions(bounded_yaml.load_all(path.read_text()))), manager="user")


def hook() -> Object:
    """Returns a Pod that has to succeed before the rest of its release is applied."""
    metadata = {"annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}}
    return manifest(
        POD, HOOK.name, HOOK.namespace, metadata=metadata, spec={"containers": [{"name": "c", "image": "i"}]}
    )


def choose(client: Client, class_name: str) -> None:
    spec = {"topology": {"classRef": {"name": class_name}}}
    client.apply(CLUSTER, manifest(CLUSTER, CLUSTER_KEY.name, CLUSTER_KEY.namespace, spec=spec), manager="user")


def kubeconfig_secret(kubeconfig: Path) -> Object:
    """Returns the Secret by which the management cluster is the workload cluster, too."""
    made = secret("demo-kubeconfig", CLUSTER_KEY.namespace, value=kubeconfig.read_text())
    made["metadata"]["labels"] = {CLUSTER_NAME_LABEL: CLUSTER_KEY.name}
    return made


def is_applied(client: Client, class_name: str) -> bool:
    addon = client.find(CLUSTER_ADDON, ADDON)
    return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == class_name


def maps(client: Client) -> dict[str, str]:
    """Returns the values of the ConfigMaps of the releases."""
    found = client.list(CONFIG_MAP, "default")
    return {obj["metadata"]["name"]: obj["data"]["k"] for obj in found if "k" in dig(obj, "data", {})}
