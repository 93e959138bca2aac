"""The runtime `kind` without a container engine: error classes, configuration, ownership and the states of its job."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from functions.kind_cluster.runtime import InstanceSpec, RuntimeUnavailable, StillDeleting, from_env
from infra.local.kind import KindRuntime, worker
from infra.local.kind.config import IMAGES, OWNER_MOUNT, image, kind_config, node_names, problem
from infra.local.kind.engine import Engine, NodeContainer, container, owner
from infra.local.kind.errors import classify
from infra.local.kind.job import Job, Order, Result
from infra.local.kind.worker import Worker, endpoint
from infra.local_control_plane.processes import Process
from tests.support.ports import free_port
from tests.support.until import until

PULL = """using podman due to KIND_EXPERIMENTAL_PROVIDER
Creating cluster "t1" ...
 ✗ Ensuring node image (kindest/node:v1.37.0) 🖼️
ERROR: failed to create cluster: failed to pull image "kindest/node@sha256:a1": command "podman pull a1" failed with \
error: exit status 125

Command Output: Trying to pull docker.io/kindest/node@sha256:a1...
Error: initializing source docker://kindest/node: dial tcp: lookup registry-1.docker.io: no such host
"""
FAILED = "ERROR: failed to create cluster: "
RUN = FAILED + 'command "podman run --name a" failed with error: exit status 126\n\nCommand Output: '
INFO = """ERROR: failed to create cluster: failed to get docker info: command "docker info --format '{{json .}}'" \
failed with error: exit status 1

Command Output: {"ID":""}
Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
"""


@pytest.mark.parametrize(
    ("output", "reason", "message"),
    [
        (PULL, "ImageNotFound", 'failed to pull image "kindest/node@sha256:a1": exit status 125: Error: initializing'),
        (PULL + "write /var/lib: no space left on device", "OutOfSpace", "no space left on device; free space"),
        (INFO, "RuntimeUnavailable", "Is the docker daemon running?; start the container engine"),
        (
            'ERROR: failed to list clusters: command "nerdctl ps" failed with error: exec: "nerdctl": executable file '
            "not found in $PATH\n\nCommand Output: \n",
            "RuntimeUnavailable",
            'exec: "nerdctl": executable file not found in $PATH; start',
        ),
        (
            'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "a"',
            "NameTaken",
            'node(s) already exist for a cluster with the name "a"; another cluster has this name and stays unchanged',
        ),
        (RUN + "Error: the container name x is already in use by abc", "NameTaken", "choose another spec.clusterName"),
        (RUN + "Bind for 127.0.0.1:80 failed: port is already allocated", "PortTaken", "free the port"),
        (
            RUN + "Error: cannot listen on the TCP port: listen tcp4 :80: bind: address already in use",
            "PortTaken",
            ":80",
        ),
        (
            FAILED + "failed to ensure podman network: exit status 125: "
            "Error: network name kind already used: network already exists",
            "NetworkCreated",
            "the creation is tried again",
        ),
        (RUN + "Error: statfs /nowhere: no such file or directory", "InvalidConfiguration", "statfs /nowhere"),
        (RUN + "Error: OCI runtime error: something new", "NodeFailed", "OCI runtime error: something new"),
        (
            FAILED + "unable to decode config: yaml: unmarshal errors:\n  line 3: field nodez not found in type X\n",
            "InvalidConfiguration",
            "unable to decode config: yaml: unmarshal errors:: line 3: field nodez not found",
        ),
        (
            FAILED + 'invalid pod subnet failed to parse cidr value:"aa" with error: invalid CIDR address: aa',
            "InvalidConfiguration",
            "invalid pod subnet",
        ),
        (
            FAILED + "failed to generate kubeadm config content: failed to parse JSON 6902 patches: x",
            "InvalidConfiguration",
            "failed to parse JSON 6902 patches: x; correct the spec",
        ),
        (
            FAILED + "failed to generate kubeadm config content: failed to apply JSON 6902 patch: missing value",
            "InvalidConfiguration",
            "failed to apply JSON 6902 patch: missing value",
        ),
        (FAILED + "failed to patch containerd config: x", "InvalidConfiguration", "failed to patch containerd config"),
        (
            FAILED + "failed to ensure podman network: exhausted attempts trying to find a non-overlapping subnet",
            "NoFreeSubnet",
            "delete unused networks",
        ),
        (
            FAILED + "'A_b' is not a valid cluster name, cluster names must match `^[a-z0-9.-]+$`",
            "InvalidConfiguration",
            "not a valid cluster name",
        ),
        (
            "ERROR: failed to create cluster: must have at least one control-plane node",
            "InvalidConfiguration",
            "at least",
        ),
        (
            'ERROR: failed to create cluster: could not find a log line that matches "Reached target"',
            "NodeNotBooted",
            "is a node image of kind",
        ),
        (
            "ERROR: failed to create cluster: failed to init node with kubeadm: x",
            "ControlPlaneFailed",
            "kubeadm: x; see",
        ),
        ("ERROR: failed to create cluster: something else", "CreationFailed", "something else"),
        ("panic: a bug", "CreationFailed", "panic: a bug"),
        ("", "CreationFailed", "no output"),
    ],
)
def test_output_of_kind_is_classified(output: str, reason: str, message: str) -> None:
    found = classify(output)
    assert found.reason == reason
    assert message in found.message
    assert found.retry_after >= 10


def test_long_output_is_cut() -> None:
    assert len(classify(f"ERROR: {'x' * 5000}\n{'y' * 5000}").message) < 900


MINE = NodeContainer("a-control-plane", "control-plane", True, ("/var", "/capi-functions/owner/u"))
OTHER = NodeContainer("a-worker", "worker", True, ("/var", "/capi-functions/owner/v"))
BALANCER = NodeContainer("a-external-load-balancer", "external-load-balancer", True, ())


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], "nobody"),
        ([MINE], "us"),
        ([MINE, BALANCER], "us"),
        ([BALANCER], "another"),
        ([OTHER], "another"),
        ([MINE, OTHER], "another"),
        ([NodeContainer("a-control-plane", "control-plane", True, ())], "another"),
    ],
    ids=["none", "ours", "load balancer", "load balancer only", "other uid", "mixed", "no mount"],
)
def test_containers_are_ours_only_with_the_proof_in_all_nodes(nodes: list[NodeContainer], expected: str) -> None:
    assert owner(nodes, "u") == expected


def mounted(path: str) -> dict[str, Any]:
    mounts = [{"hostPath": "/srv", "containerPath": "/srv"}, {"hostPath": "/srv", "containerPath": path}]
    return {"clusterName": "a", "nodes": [{"role": "worker"}, {"role": "control-plane", "extraMounts": mounts}]}


@pytest.mark.parametrize(("type_", "expected"), [("bind", "us"), ("volume", "another")])
def test_volume_of_an_image_proves_nothing(type_: str, expected: str) -> None:
    found = container({"Name": "/a", "Mounts": [{"Type": type_, "Destination": "/capi-functions/owner/u"}]})
    assert owner([found], "u") == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"clusterName": "a"}, ""),
        ({"clusterName": "a", "kubernetesVersion": "1.37"}, ""),
        ({"clusterName": "a", "kubernetesVersion": "1.99"}, "no node image is known for spec.kubernetesVersion 1.99"),
        ({"clusterName": "a", "kubernetesVersion": "1.99", "image": "mine"}, ""),
        ({"clusterName": "a" * 49}, ""),
        ({"clusterName": "a" * 50}, "spec.clusterName has 50 characters, the runtime kind allows 49"),
        ({"clusterName": "a" * 40, "nodes": [{}, {}, {"role": "worker"}]}, ""),
        (
            {"clusterName": "a" * 41, "nodes": [{}, {}]},
            "has 41 characters, the runtime kind allows 40 with these nodes",
        ),
        ({"clusterName": "a", "networking": {"apiServerAddress": "0.0.0.0"}}, "to which no client can connect"),
        ({"clusterName": "a", "networking": {"apiServerAddress": "192.0.2.1"}}, ""),
        (mounted("/data"), ""),
        (mounted("/capi-functions/owners"), ""),
        (mounted("/capi-functions/owner/v"), "is reserved for the proof of ownership"),
        (mounted("/capi-functions/owner"), "is reserved for the proof of ownership"),
        (mounted("//x/../capi-functions/./owner/v/"), "the containerPath /capi-functions/owner/v"),
    ],
)
def test_problems_that_kind_does_not_report(fields: dict[str, Any], expected: str) -> None:
    found = problem(fields)
    assert expected in found
    assert bool(found) is bool(expected)


def test_containers_are_named_as_kind_names_them() -> None:
    roles = ("control-plane", "worker", "control-plane", "worker", "worker")
    assert node_names("a", {"nodes": [{"role": role} for role in roles]}) == [
        "a-control-plane",
        "a-control-plane2",
        "a-worker",
        "a-worker2",
        "a-worker3",
        "a-external-load-balancer",
    ]
    assert node_names("a", {}) == ["a-control-plane"]


def test_images_are_pinned_by_digest() -> None:
    assert list(IMAGES) == [f"1.{minor}" for minor in range(37, 13, -1)]
    assert len({name.partition("@sha256:")[2] for name in IMAGES.values()}) == len(IMAGES)
    for version, name in IMAGES.items():
        assert name.startswith(f"kindest/node:v{version}.")
        assert len(name.partition("@sha256:")[2]) == 64
    assert image({}) == IMAGES["1.21"]
    assert image({"kubernetesVersion": "1.36", "image": "mine"}) == "mine"


def test_configuration_has_the_fields_of_the_spec_and_the_proof_of_ownership() -> None:
    mount = {"hostPath": "/a", "containerPath": "/b"}
    nodes = [
        {"role": "worker", "extraMounts": [mount], "image": "other"},
        {"role": "control-plane"},
        {"role": "control-plane"},
    ]
    patches: dict[str, Any] = {
        "kubeadmConfigPatches": ["kind: ClusterConfiguration"],
        "kubeadmConfigPatchesJSON6902": [{"kind": "ClusterConfiguration", "patch": "[]"}],
        "containerdConfigPatches": ["version = 2"],
        "containerdConfigPatchesJSON6902": ["[]"],
    }
    fields = {
        "clusterName": "a",
        "image": "mine",
        "nodes": nodes,
        "networking": {"podSubnet": "10.1.0.0/16"},
        **patches,
    }
    found = kind_config({**fields, "runtime": "kind"}, "u", "/owner", ("/crt", "/key"))
    proof = {"hostPath": "/owner", "containerPath": "/capi-functions/owner/u", "readOnly": True}
    ca = [
        {"hostPath": "/crt", "containerPath": "/etc/kubernetes/pki/ca.crt"},
        {"hostPath": "/key", "containerPath": "/etc/kubernetes/pki/ca.key"},
    ]
    assert found == {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {"role": "worker", "image": "other", "extraMounts": [mount, proof]},
            {"role": "control-plane", "image": "mine", "extraMounts": [proof, *ca]},
            {"role": "control-plane", "image": "mine", "extraMounts": [proof]},
        ],
        "networking": {"podSubnet": "10.1.0.0/16"},
        **patches,
    }
    assert nodes[0] == {"role": "worker", "extraMounts": [mount], "image": "other"}
    assert len(kind_config({}, "u", "/owner")["nodes"]) == 1


# -- the job -------------------------------------------------------------------------------------------------------

SPEC = InstanceSpec("u", "a", {"clusterName": "a"})


@pytest.fixture
def runtime(tmp_path: Path) -> KindRuntime:
    """A runtime without a container engine."""
    return KindRuntime(tmp_path, {"PATH": "/nowhere"})


def placed(folder: Path, action: Any = "create", result: Result | None = None) -> Job:
    job = Job(folder / SPEC.uid)
    job.folder.mkdir()
    order = {"action": action, "uid": "u", "name": "a", "engine": "no-such-engine", "fields": {"clusterName": "a"}}
    (job.folder / "order.json").write_text(json.dumps(order))
    job.report(result)
    return job


def test_runtime_kind_is_installed(tmp_path: Path) -> None:
    found = from_env({"CAPI_FUNCTIONS_DATA": str(tmp_path)}, "kind")
    assert found.inspect(SPEC).phase == "absent"


@pytest.mark.parametrize("action", ["create", "delete"])
def test_interrupted_job_is_continued(runtime: KindRuntime, tmp_path: Path, action: str) -> None:
    placed(tmp_path, action)
    assert runtime.inspect(SPEC).phase == "absent"


@pytest.mark.parametrize(
    ("action", "phase", "step"), [("create", "starting", "Preparing nodes"), ("delete", "deleting", "")]
)
def test_job_works_as_long_as_its_folder_is_locked(
    runtime: KindRuntime, tmp_path: Path, action: str, phase: str, step: str
) -> None:
    job = placed(tmp_path, action)
    job.log.write_text(" • Ensuring node image (x) 🖼️  ...\n ✓ Ensuring node image (x) 🖼️\n • Preparing nodes 📦   ...\n")
    lock = os.open(job.folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = runtime.inspect(SPEC)
        assert (found.phase, found.step) == (phase, step)
        runtime.create(SPEC, None)  # is not started twice
        assert job.order is not None
        assert job.order.action == action
    finally:
        os.close(lock)


def test_look_at_a_job_is_no_work(runtime: KindRuntime, tmp_path: Path) -> None:
    result = Result("create", "failed", reason="PortTaken", error="taken")
    job = placed(tmp_path, result=result)
    lock = os.open(job.folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert runtime.inspect(SPEC).phase == "failed"
    finally:
        os.close(lock)


def test_job_begins_while_another_process_checks_it(tmp_path: Path) -> None:
    folder = placed(tmp_path).folder
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)

    class Seen(Job):
        @property
        def is_running(self) -> bool:
            found = super().is_running
            os.close(lock)  # the check ends
            return found

    Seen(folder).begin(Order("delete", "u", "a", "no-such-engine"))
    job = Job(folder)
    assert job.order == Order("delete", "u", "a", "no-such-engine")
    until(lambda: not job.is_running)


def test_cluster_has_ended_if_a_node_is_stopped_or_all_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of an engine that does not answer are left out."""
    (tmp_path / "bin").mkdir()
    stopped = json.dumps([{"Name": "stopped-worker", "State": {"Running": False}}])
    docker = f"""case "$*" in
        *--format*) echo runs-control-plane stopped-control-plane deleted-control-plane ;;
        "ps -a "*=stopped) echo 1 ;; "inspect 1") echo '{stopped}' ;;
        "ps -a "*=deleted) echo 2 ;; "inspect 2") echo '{stopped.replace("false", "true")}' ;;
    esac"""
    for name, script in (("docker", docker), ("podman", f"echo . >>{tmp_path}/podman.calls; exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    jobs = tmp_path / "kind"
    two = {"nodes": [{}, {"role": "worker"}]}
    clusters = {"runs": {}, "gone": {}, "stopped": two, "deleted": two, "silent": {}}
    for name, fields in clusters.items():
        (jobs / name).mkdir(parents=True)
        engine = "podman" if name == "silent" else "docker"
        order = {"action": "create", "uid": name, "name": name, "engine": engine, "fields": fields}
        (jobs / name / "order.json").write_text(json.dumps(order))
        Job(jobs / name).report(Result("create", "ready", "h", 1))
    runtime = KindRuntime(jobs)
    assert [sorted(runtime.ended()), sorted(runtime.ended())] == [["gone", "stopped"], ["gone", "stopped"]]
    assert (tmp_path / "podman.calls").read_text() == ".\n.\n"
    [warning] = caplog.messages
    assert warning.startswith("cannot find out whether clusters of podman have ended")


def test_failed_creation_waits_unless_the_spec_was_changed(runtime: KindRuntime, tmp_path: Path) -> None:
    result = Result("create", "failed", reason="PortTaken", error="taken", retry_at=time.time() + 60)
    placed(tmp_path, result=result)
    found = runtime.inspect(SPEC)
    assert (found.phase, found.reason, found.error) == ("failed", "PortTaken", "taken")
    assert 50 < found.retry_after <= 60
    assert runtime.inspect(InstanceSpec("u", "a", {"clusterName": "b"})).phase == "absent"


def test_engine_that_is_gone_is_reported_in_every_state(runtime: KindRuntime, tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="needs one of docker, nerdctl, podman"):
        runtime.create(SPEC, None)
    runtime.delete(SPEC)  # nothing was created
    placed(tmp_path, result=Result("create", "ready", "h", 1))
    with pytest.raises(RuntimeUnavailable, match="no-such-engine cannot be run") as refused:
        runtime.inspect(SPEC)
    assert refused.value.reason == "RuntimeUnavailable"


def test_cluster_that_is_created_anew_was_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the nodes of a creation that is interrupted then would be started, not rolled back."""
    for name, script in (("kind", "echo no luck >&2; exit 1"), ("no-such-engine", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    job = placed(tmp_path)
    job.kubeconfig.write_text("of nodes that are gone")
    assert job.order is not None
    Worker(job, job.order).run()
    assert job.result is not None
    assert "no luck" in job.result.error
    assert not job.was_ready


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://127.0.0.1:41000", ("127.0.0.1", 41000)),
        ("https://one-control-plane:6443", ("one-control-plane", 6443)),
        ("https://[::1]:6443", ("::1", 6443)),
        ("https://kind.example.com", ("kind.example.com", 443)),
        ("http://localhost:5000", ("localhost", 5000)),
    ],
)
def test_endpoint_is_that_of_the_kubeconfig(server: str, expected: tuple[str, int]) -> None:
    assert endpoint(json.dumps({"clusters": [{"name": "kind-a", "cluster": {"server": server}}]}).encode()) == expected


def test_api_server_that_never_answers_fails_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that exists and was ready once is published again: its nodes are there, its API server is not."""
    cluster = {"name": "kind-a", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}
    context = {"name": "kind-a", "context": {"cluster": "kind-a", "user": "kind-a"}}
    user = {"name": "kind-a", "user": {"token": "secret"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "kind-a", "users": [user]}
    (tmp_path / "kubeconfig.json").write_text(json.dumps(config))
    mount = {"Type": "bind", "Destination": OWNER_MOUNT + SPEC.uid}
    labels = {"io.x-k8s.kind.role": "control-plane"}
    node = {"Name": "a-control-plane", "State": {"Running": True}, "Config": {"Labels": labels}, "Mounts": [mount]}
    (tmp_path / "nodes.json").write_text(json.dumps([node]))
    engine = f"case $1 in ps) echo 1 ;; inspect) cat {tmp_path}/nodes.json ;; exec) echo PEM ;; esac"
    for name, script in (("kind", f"cat {tmp_path}/kubeconfig.json"), ("no-such-engine", engine)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(worker, "_READY_TIMEOUT", 0.01)
    job = placed(tmp_path)
    job.kubeconfig.write_text("of the time when it was ready")
    assert job.order is not None
    Worker(job, job.order).run()
    assert job.result is not None
    assert (job.result.phase, job.result.reason) == ("failed", "ControlPlaneFailed")
    assert job.result.error.startswith("the API server does not answer: ")
    assert job.result.error.endswith("see the logs of the nodes with kind export logs")


def test_worker_that_ends_while_it_is_interrupted_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = placed(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as process:  # leads no process group, as one that has ended
        found = Process.of(process.pid)
        assert found is not None
        (job.folder / "worker.json").write_text(json.dumps(asdict(found)))
        monkeypatch.setattr(Process, "alive", lambda _self: process.poll() is None)
        threading.Timer(0.05, process.kill).start()
        job.interrupt()


def test_deletion_goes_on_in_the_background_and_says_why_it_failed_before(runtime: KindRuntime, tmp_path: Path) -> None:
    job = placed(tmp_path, "delete", Result("delete", "failed", reason="RuntimeUnavailable", error="no engine"))
    with pytest.raises(StillDeleting) as deleting:
        runtime.delete(SPEC)
    assert (deleting.value.message, deleting.value.reason) == ("no engine", "RuntimeUnavailable")
    until(lambda: not job.is_running)
    result = job.result
    assert result is not None
    assert "no-such-engine cannot be run" in result.error


@pytest.mark.parametrize(("env", "expected"), [({"KIND_EXPERIMENTAL_PROVIDER": "podman"}, "podman"), ({}, "nerdctl")])
def test_engine_is_the_chosen_or_the_first_installed(tmp_path: Path, env: dict[str, str], expected: str) -> None:
    for name in ("nerdctl", "podman"):
        (tmp_path / name).touch(mode=0o755)
    assert Engine.choose({"PATH": str(tmp_path), **env}).name == expected


def test_order_and_result_are_kept(tmp_path: Path) -> None:
    job = placed(tmp_path, result=Result("create", "ready", "h", 1))
    assert job.order == Order("create", "u", "a", "no-such-engine", {"clusterName": "a"})
    assert job.result == Result("create", "ready", "h", 1)
    assert Job(tmp_path / "other").order is None
    assert not Job(tmp_path / "other").is_running
