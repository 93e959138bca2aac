"""The commands as a user types them, each in its own process."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from infra.cli.demo import FOLDER, RELEASES
from infra.operations.last_options import remember
from shared.event import own_event
from tests.support import processes
from tests.support.command_line import CLI, await_end, run
from tests.support.until import HANGS, until

ADDRESSES = ("kubeconfig", "api_server", "functions", "ingress", "token")


def test_demo_verifies_all_steps_and_leaves_no_process(tmp_path: Path) -> None:
    result = run("demo", "--dir", tmp_path / "demo")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 new" in result.stdout
    assert "every step was verified" in result.stdout
    await_end(tmp_path / "demo")


def test_run_starts_replays_and_ends(tmp_path: Path, kubectl: Path) -> None:
    folder = tmp_path / "run"
    try:
        started = run("up", "--dir", folder, "--detach")
        assert started.returncode == 0, started.stdout + started.stderr
        state = json.loads((folder / "up.json").read_text())
        status = run("status", "--dir", folder, "-o", "json")
        assert status.returncode == 0
        assert json.loads(status.stdout) == {
            "up": True,
            **{name: state[name] for name in ADDRESSES},
            "logs": str(Path(state["kubeconfig"]).parent / "logs"),
        }
        again = run("up", "--dir", folder)
        assert again.returncode == 1
        assert "already" in again.stderr
        capture = [*CLI, "capture", str(tmp_path / "capture"), "--dir", str(folder)]
        recording = processes.start(capture, stdout=subprocess.PIPE, text=True)
        assert recording.stdout is not None
        assert any("ends it" in line for line in recording.stdout), "it ended before it recorded"
        manifest = tmp_path / "cluster.yaml"
        manifest.write_text(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c, namespace: default}\n"
            "spec: {clusterNetwork: {serviceDomain: cluster.local}}\n"
        )
        processes.run([kubectl, "--kubeconfig", state["kubeconfig"], "apply", "-f", manifest], check=True)
        until(lambda: list((tmp_path / "capture/events").glob("*-cluster-add-default-c.json")), "the Cluster's event")
        recording.send_signal(signal.SIGINT)
        recording.communicate(timeout=60)
        assert recording.returncode == 0
        inputs = list(yaml.safe_load_all((tmp_path / "capture" / "inputs.yaml").read_text()))
        assert [(doc["kind"], doc["metadata"]["name"]) for doc in inputs] == [("Cluster", "c")]
        replayed = run("replay", tmp_path / "capture", "--dir", folder, "--double", "--shuffle", "7")
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        sent = run("replay", tmp_path / "capture", "--dir", folder, "--to", state["ingress"])
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert "x 202" in sent.stdout
        bad = own_event("release.wanted", source="/test", subject="x", data={"release": "none", "namespace": "default"})
        (tmp_path / "bad.json").write_text(bad.to_json())
        assert run("replay", tmp_path / "bad.json", "--dir", folder, "--to", state["ingress"]).returncode == 0
        until(lambda: "release_assets" in run("dead-letter", "list", "--dir", folder).stdout, "the dead letter")
        assert run("dead-letter", "drop", "--all", "--dir", folder).returncode == 0
        second = run("run", "--kubeconfig", folder / "management.kubeconfig", "--logs", tmp_path / "logs")
        assert second.returncode == 1
        assert f"the functions of the run in {folder} work on this cluster already" in second.stderr
        assert "of release_assets" in run("logs", "--dir", folder).stdout
        assert "there are: functions, up" in run("logs", "etcd", "--dir", folder).stderr
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    await_end(folder)
    assert "no run in" in run("down", "--dir", folder).stdout
    try:
        anew = run("up", "--dir", folder, "--reset", "--yes", "--detach")
        assert anew.returncode == 0, anew.stdout + anew.stderr
        assert "deleted the data of earlier runs" in anew.stdout
        state = json.loads((folder / "up.json").read_text())
        asked = [kubectl, "--kubeconfig", state["kubeconfig"], "get", "clusters", "-A", "-o", "name"]
        assert processes.run(asked, check=True, capture_output=True, text=True).stdout == ""
    finally:
        run("down", "--dir", folder)


def test_local_run_applies_cluster_stacks_and_finalizes_namespaces(tmp_path: Path, kubectl: Path) -> None:
    folder = tmp_path / "run"
    try:
        releases = shutil.copytree(RELEASES, tmp_path / "releases")
        remember(folder, {"releases": str(releases)})
        started = run("up", "--dir", folder, "--detach")
        assert started.returncode == 0, started.stdout + started.stderr
        assert f"as at the last start: --releases={releases}" in started.stdout
        ask = [kubectl, "--kubeconfig", folder / "management.kubeconfig"]
        processes.run([*ask, "apply", "-f", FOLDER / "cluster-stack.yaml"], check=True)
        processes.run([*ask, "wait", "csk/demo", "--for=condition=Ready", "--timeout=300s"], check=True)
        listed = [*ask, "get", "clusterclasses", "-o", "name"]
        classes = processes.run(listed, check=True, capture_output=True, text=True).stdout.split()
        assert classes == ["clusterclass.cluster.x-k8s.io/local-demo-1-36-v3"]
        processes.run([*ask, "create", "namespace", "short"], check=True)
        processes.run([*ask, "create", "configmap", "inside", "-n", "short"], check=True)
        processes.run([*ask, "delete", "namespace", "short", "--timeout=300s"], check=True)
    finally:
        stopped = run("down", "--dir", folder)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


STEPS = (
    "starting the control plane",
    "API server ready",
    "custom resources installed",
    "functions at ",
    "ends the run",
)


def test_no_process_outlives_up_and_it_starts_after_a_kill_at_every_step(tmp_path: Path) -> None:
    """Each start finds what the kills before have left."""
    folder = tmp_path / "run"
    for step, number in [*((step, signal.SIGKILL) for step in STEPS), (STEPS[-1], signal.SIGINT)]:
        with processes.start(
            [*CLI, "up", "--dir", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if step in line:
                    break
            assert process.poll() is None, said
            process.send_signal(number)
            process.wait(HANGS)
        await_end(folder)


def test_render_prints_the_objects_of_a_release() -> None:
    result = run("render", "--release", RELEASES / "local-demo-1-36-v1", "--cluster", FOLDER / "cluster.yaml")
    assert result.returncode == 0, result.stderr
    documents = list(yaml.safe_load_all(result.stdout))
    assert len(documents) >= 12
    assert {"CustomResourceDefinition", "Namespace", "Deployment"} <= {doc["kind"] for doc in documents}


@pytest.mark.parametrize(
    ("cluster", "words"),
    [("kind: Other\n", "it has no Cluster"), ("a: {", "not YAML"), ("", "it has no Cluster")],
)
def test_render_reports_unusable_input_in_one_line(tmp_path: Path, cluster: str, words: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster)
    result = run("render", "--release", RELEASES / "local-demo-1-36-v1", "--cluster", file)
    assert result.returncode == 1
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_render_refuses_a_folder_that_is_not_a_release(tmp_path: Path) -> None:
    folder = tmp_path / "local-demo-1-36-v9"
    folder.mkdir()
    result = run("render", "--release", folder, "--cluster", FOLDER / "cluster.yaml")
    assert result.returncode == 1
    assert "metadata.yaml: missing" in result.stderr


def test_wrong_usage_exits_with_2() -> None:
    assert run("--help").returncode == 0
    assert run("nope").returncode == 2
    assert run("replay", "/nowhere").returncode == 2
    assert run("doctor").returncode == 0
