"""`capi-functions run`: the functions of this machine for a management cluster that exists."""

from __future__ import annotations

import base64
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from functions.kind_cluster.triggers import FINALIZER
from infra import local_control_plane
from infra.cli.demo import RELEASES
from infra.local import crds
from infra.local_control_plane.binaries import locate
from shared.api.cluster import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, CLUSTER_ADDON, DEPLOYMENT, KIND_CLUSTER, SECRET, VALIDATING_WEBHOOKS
from shared.kube import Client, Key, connect, dig
from shared.kube.crds import CRD
from shared.settings import SETTINGS
from shared.storage import ObjectStore
from tests.support import accounts, kind_engine, processes
from tests.support.command_line import CLI, run
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret, webhooks_of
from tests.support.planes import connected, running_plane
from tests.support.ports import free_port
from tests.support.until import HANGS, until

RELEASE = "local-fleet-1-36-v1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """A management cluster without definitions of ours: a client, and its kubeconfig."""
    with running_plane(tmp_path / "cluster", groups=()) as folder, connected(folder) as client:
        yield client, local_control_plane.kubeconfig(folder)


@contextmanager
def running(kubeconfig: Path, folder: Path, *options: str) -> Iterator[Path]:
    """Runs the command until the end of the block; yields the file with its output."""
    output = folder / "output.txt"
    command = [*CLI, "run", "--kubeconfig", str(kubeconfig), "--logs", str(folder / "logs"), *options]
    with output.open("wb") as file:
        process = processes.start(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
    try:
        until(lambda: "Ctrl-C ends" in output.read_text() or process.poll() is not None, details=output.read_text)
        assert process.poll() is None, output.read_text()
        yield output
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def test_missing_definitions_are_named_and_installed_on_request(
    cluster: tuple[Client, Path], tmp_path: Path, object_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With releases in a folder, kept in a bucket that exists."""
    client, kubeconfig = cluster
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    bucket = ObjectStore("s3://run", {**SETTINGS, "S3_ENDPOINT_URL": object_store_url})
    refused = run("run", "--kubeconfig", kubeconfig, "--profile", "addons", "--logs", tmp_path / "logs")
    assert refused.returncode == 1
    assert "clusteraddons.clusterstack.x-k8s.io" in refused.stderr
    assert "--install-crds installs them" in refused.stderr
    ask = [*CLI, "run", "--kubeconfig", str(kubeconfig), "--install-crds", "--logs", str(tmp_path / "logs")]
    declined = processes.run(ask, input="n\n", capture_output=True, text=True, check=False)
    assert declined.returncode == 1
    assert "Install" in declined.stderr
    assert "there is no terminal for an answer: confirm with --yes" in declined.stderr
    assert list(client.list(CRD)) == []
    store = ("--store", f"{object_store_url}/run")
    options = ("--profile", "addons", "--install-crds", "--yes", "--releases", str(RELEASES), *store)
    with running(kubeconfig, tmp_path, *options) as output:
        assert "functions: addon_apply, addon_cleanup, addon_create," in output.read_text()
        _expect_addons(client, kubeconfig)
    installed = {dig(crd, "spec.names.kind") for crd in client.list(CRD)}
    assert {"Cluster", "ClusterAddon", "ClusterStack", "ClusterStackRelease"} <= installed
    assert "CoreProvider" not in installed, "no function of the profile watches it"
    assert [key for key in bucket.list() if RELEASE in key]


def test_object_store_that_cannot_be_used_is_named_before_anything_starts(
    cluster: tuple[Client, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    store = f"http://127.0.0.1:{free_port()}/run"
    done = run("run", "--kubeconfig", cluster[1], "--logs", tmp_path / "logs", "--store", store)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert f"--store {store} cannot be used: " in said
    assert "S3_ENDPOINT_URL" in said
    assert not (tmp_path / "logs" / "run.log").exists()


def test_what_no_function_reconciles_or_deletes_is_named(cluster: tuple[Client, Path], tmp_path: Path) -> None:
    client, kubeconfig = cluster
    with running(kubeconfig, tmp_path, "--install-crds", "--yes", "--profile", "kubeconfig") as output:
        assert "no function of these profiles reconciles Clusters" in output.read_text()
    with running(kubeconfig, tmp_path, "--install-crds", "--yes", "--profile", "standalone") as output:
        assert "reconciles Clusters" not in output.read_text()
        kind = manifest(KIND_CLUSTER, "left", "default", spec={"clusterName": "left"})
        kind["metadata"]["finalizers"] = ["kindclusters.infrastructure.cluster-k8s.io/cluster-finalizer", "x.org/other"]
        kind["metadata"]["annotations"] = {PAUSED_ANNOTATION: ""}  # so that the finalizer stays
        client.create(KIND_CLUSTER, kind)
        client.delete(KIND_CLUSTER, Key("default", "left"))
    _, _, end = output.read_text().partition("stopped")
    assert "KINDCluster default/left waits for the function kind_cluster" in end
    assert "1 object being deleted: the deletion ends once these functions run again" in end


def _expect_addons(client: Client, kubeconfig: Path) -> None:
    """Creates a Cluster whose workload cluster is the management cluster itself, and waits for its addons."""
    labels = {CLUSTER_NAME_LABEL: "demo"}
    client.create(CLUSTER, manifest(CLUSTER, "demo", "default", spec={"topology": {"classRef": {"name": RELEASE}}}))
    made = secret("demo-kubeconfig", "default", value=kubeconfig.read_text())
    made["metadata"]["labels"] = labels
    client.create(SECRET, made)
    key = Key("default", "cluster-addon-demo")
    until(
        lambda: dig(client.find(CLUSTER_ADDON, key), "status.ready") is True,
        "the addons",
        details=lambda: client.find(CLUSTER_ADDON, key),
    )


def test_live_core_chooses_profiles_and_missing_rights_are_named(cluster: tuple[Client, Path], tmp_path: Path) -> None:
    client, kubeconfig = cluster
    crds.install(client, crds.load())
    _run_core(client)
    limited = tmp_path / "limited.yaml"
    accounts.kubeconfig_of(client, kubeconfig, _rights_without_secrets(tmp_path), limited)
    with running(limited, tmp_path, "--releases", str(RELEASES)) as output:
        text = output.read_text()
        client.create(CLUSTER, manifest(CLUSTER, "seen", "default", spec={"topology": {"classRef": {"name": RELEASE}}}))
        functions_log = tmp_path / "logs" / "run.log"
        until(lambda: "addon_create Cluster default/seen" in functions_log.read_text(), "the kinds with rights go on")
    assert "Cluster API core runs: Deployment default/core" in text
    assert "profiles: addons,providers,kubeconfig; --profile chooses others" in text
    functions = text.partition("functions: ")[2].splitlines()[0].split(", ")
    assert {"addon_apply", "kubeconfig"} <= set(functions)
    assert not {"cluster", "kind_cluster"} & set(functions)
    assert (
        "no right to list and watch secrets: addon_apply, cluster_wake, kubeconfig, provider_wake, source_wake get no "
        "events of it" in text
    )


def _run_core(client: Client) -> None:
    """Creates the Deployment and the webhooks of a core, with the status that its controller writes once it runs."""
    labels = {"cluster.x-k8s.io/provider": "cluster-api"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "core:v1"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    core = manifest(DEPLOYMENT, "core", "default", spec=spec)
    core["metadata"]["labels"] = labels
    client.create(DEPLOYMENT, core)
    client.create(VALIDATING_WEBHOOKS, webhooks_of("cluster-api", "default"))
    status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    client.patch(DEPLOYMENT, Key("default", "core"), {"status": status}, subresource="status")


def _rights_without_secrets(folder: Path) -> Path:
    """Returns a manifest of an account that may read all that functions watch, except Secrets."""
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": [CRD.plural], "verbs": ["get", "list", "watch"]},
        *(
            {"apiGroups": [group], "resources": ["*"], "verbs": ["get", "list", "watch"]}
            for group in sorted({dig(crd, "spec.group") for crd in crds.load()})
        ),
    ]
    metadata = {"name": "limited"}
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"}
    rbac = "rbac.authorization.k8s.io/v1"
    documents = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": "default"}},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    ]
    file = folder / "rights.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--store", "s3.example.com/capi"), "must be a bucket"),
        (("--store", "https://s3.example.com"), "must be a bucket"),
        (("--profile", "adons"), "there is no profile adons"),
        (("--releases", "/nope"), "/nope is neither a folder nor a URL"),
    ],
)
def test_invalid_options_are_named(
    cluster: tuple[Client, Path], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("run", "--kubeconfig", cluster[1], "--logs", tmp_path / "logs", *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.timeout(1800)  # another test run may use podman
def test_kind_clusters_of_an_existing_cluster_are_containers_of_this_machine(
    cluster: tuple[Client, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, kubeconfig = cluster
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path / "data"))
    key, config = Key("default", "test1"), Key("default", "test-1-config")
    options = ("--profile", "kind", "--install-crds", "--yes")
    with running(kubeconfig, tmp_path, *options) as output:
        assert "KINDClusters are refused: --kind creates them in containers here" in output.read_text()
        assert {dig(crd, "spec.names.kind") for crd in client.list(CRD)} >= {"KINDCluster"}
        client.create(KIND_CLUSTER, manifest(KIND_CLUSTER, "test1", "default", spec=_SPEC))
        until(lambda: _ready(client, key) == ("False", "RuntimeNotAllowed"), details=output.read_text)
        assert "finalizers" not in client.get(KIND_CLUSTER, key)["metadata"]
    with kind_engine.podman():
        with running(kubeconfig, tmp_path, *options, "--kind") as output:
            text = " ".join(output.read_text().split())
            assert f"KINDClusters: containers of podman; logs in {tmp_path / 'data' / 'kind'}" in text
            until(lambda: _ready(client, key) == ("True", "Provisioned"), details=lambda: client.get(KIND_CLUSTER, key))
            assert _kind_clusters() == ["test-1"]
            content = base64.b64decode(client.get(SECRET, config)["data"]["config"])
            assert connect.workload(content).text("/readyz") == "ok"
            kind_cluster = client.get(KIND_CLUSTER, key)
            assert kind_cluster["metadata"]["finalizers"] == [FINALIZER]
            history = [entry["message"] for entry in kind_cluster["status"]["conditions"] if "timestamp" in entry]
            assert history == ["Cluster cannot be created", "Cluster was successfully created"]
        assert _kind_clusters() == ["test-1"], "containers stay when the command ends"
        with running(kubeconfig, tmp_path, *options, "--kind"):
            client.delete(KIND_CLUSTER, key)
            until(lambda: client.find(KIND_CLUSTER, key) is None)
            assert _kind_clusters() == []
            assert client.find(SECRET, config) is None


_SPEC = {"clusterName": "test-1", "image": kind_engine.IMAGE, "networking": {"disableDefaultCNI": True}}


def _ready(client: Client, key: Key) -> tuple[str, str]:
    """Returns status and reason of the condition Ready of a KINDCluster."""
    ready = get_condition(dig(client.get(KIND_CLUSTER, key), "status.conditions", []), "Ready") or {}
    return ready.get("status", ""), ready.get("reason", "")


def _kind_clusters() -> list[str]:
    program = locate(["kind"], progress=print)["kind"]
    return subprocess.run([program, "get", "clusters"], capture_output=True, text=True, check=True).stdout.split()


def test_kind_clusters_need_a_container_engine(
    cluster: tuple[Client, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "no-such-engine")
    done = run("run", "--kubeconfig", cluster[1], "--kind", "--logs", tmp_path / "logs")
    assert done.returncode == 1
    assert "no-such-engine cannot be run" in " ".join(done.stderr.split())
    assert not (tmp_path / "logs" / "run.log").exists()
