"""KINDClusters of the runtime `kind`: the real kind program and a real container engine.

With docker and a node image on the machine one journey uses these. Elsewhere podman runs a control plane without a
kubelet, see `tests.support.kind_engine`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from functions.kind_cluster.runtime import Instance, InstanceSpec, StillDeleting
from infra.local.kind import KindRuntime
from infra.local.kind.config import IMAGES
from infra.local.kind.engine import Engine
from infra.local.kind.job import Job
from shared.kube import connect
from tests.support import kind_engine
from tests.support.until import until

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Podman with the image."""
    with tempfile.TemporaryDirectory(prefix="kind-") as folder, pytest.MonkeyPatch.context() as patch:
        try:
            kind_engine.podman(Path(folder), patch.setenv)
            kind_engine.build_image(Path(folder))
        except kind_engine.NoEngine as error:
            pytest.skip(str(error))
        yield Engine("podman")
        subprocess.run(["podman", "rm", "-af", "-t0"], check=True, capture_output=True)
        subprocess.run(["podman", "volume", "prune", "-f"], check=True, capture_output=True)
        subprocess.run(["podman", "rmi", "-af"], check=True, capture_output=True)
        subprocess.run(["umount", f"{folder}/graph/overlay"], check=False, capture_output=True)


class World:
    def __init__(self, directory: Path, env: Mapping[str, str] = os.environ) -> None:
        self.directory = directory
        self.runtime = KindRuntime(directory, env)
        self.specs: dict[str, InstanceSpec] = {}

    def spec(self, uid: str, name: str = "", **fields: Any) -> InstanceSpec:
        own = {"clusterName": name or uid, "image": kind_engine.IMAGE, "networking": {"disableDefaultCNI": True}}
        self.specs[uid] = InstanceSpec(uid, name or uid, {**own, **fields})
        return self.specs[uid]

    def job(self, spec: InstanceSpec) -> Job:
        return Job(self.directory / spec.uid)

    def create(self, spec: InstanceSpec, within: float = 90) -> Instance:
        """Creates the instance and returns what came of it."""
        self.runtime.create(spec, None)
        until(
            lambda: self.runtime.inspect(spec).phase != "starting",
            within=within,
            details=lambda: self.job(spec).log.read_text(),
        )
        return self.runtime.inspect(spec)

    def delete(self, spec: InstanceSpec) -> None:
        until(lambda: self.deleted(spec), within=60)

    def deleted(self, spec: InstanceSpec) -> bool:
        try:
            self.runtime.delete(spec)
        except StillDeleting:
            return False
        return True


@pytest.fixture
def world(engine: Engine, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "kind")
    yield world
    for spec in world.specs.values():
        world.delete(spec)


def test_interrupted_cluster_is_continued_restarted_and_deleted(world: World, engine: Engine) -> None:
    spec = world.spec("one")
    world.runtime.create(spec, None)
    until(lambda: engine.nodes("one"), within=60)
    world.job(spec).interrupt()  # kills the worker, while kind prepares the node
    assert world.runtime.inspect(spec).phase == "absent"
    instance = world.create(spec)
    assert instance.phase == "ready", instance.error
    assert connect.workload(instance.kubeconfig).text("/readyz") == "ok"
    assert (instance.host, instance.ca[0][:10]) == ("127.0.0.1", b"-----BEGIN")
    assert list(world.runtime.ended()) == []
    # Its node is stopped, and started again with the same address and CA.
    [node] = engine.nodes("one")
    subprocess.run(["podman", "kill", node.name], check=True, capture_output=True)
    assert list(world.runtime.ended()) == ["one"]
    stopped = world.runtime.inspect(spec)
    assert (stopped.phase, stopped.reason) == ("absent", "NodesStopped")
    assert stopped.error == f"containers are stopped: {node.name}"
    assert world.create(spec) == instance
    world.delete(spec)
    assert engine.nodes("one") == []
    assert world.runtime.inspect(spec).phase == "absent"
    assert not world.job(spec).folder.exists()
    world.delete(spec)


def test_deletion_ends_a_creation(world: World, engine: Engine) -> None:
    spec = world.spec("brief")
    world.runtime.create(spec, None)
    until(lambda: engine.nodes("brief"), within=60)
    world.delete(spec)
    assert engine.nodes("brief") == []


def test_foreign_cluster_of_the_same_name_is_left_alone(world: World, engine: Engine) -> None:
    labels = ("--label=io.x-k8s.kind.cluster=theirs", "--label=io.x-k8s.kind.role=control-plane")
    subprocess.run(["podman", "create", "--name=theirs", *labels, kind_engine.IMAGE], check=True, capture_output=True)
    spec = world.spec("theirs")
    found = world.create(spec)
    assert (found.phase, found.reason) == ("failed", "NameTaken")
    assert "another cluster has this name and is left alone" in found.error
    world.delete(spec)
    assert [node.name for node in engine.nodes("theirs")] == ["theirs"]


def mapped(port: int) -> list[dict[str, Any]]:
    return [{"role": "control-plane", "extraPortMappings": [{"containerPort": 80, "hostPort": port}]}]


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"networking": {"podSubnet": "aa"}}, "InvalidConfiguration", "invalid pod subnet"),
        (
            {"nodes": [{"role": "control-plane", "extraMounts": [{"hostPath": "/nowhere", "containerPath": "/x"}]}]},
            "InvalidConfiguration",
            "/nowhere",
        ),
        ({}, "PortTaken", "free the port"),
    ],
    ids=["subnet", "mount", "port"],
)
def test_error_of_the_real_program_has_a_class_and_leaves_nothing(
    world: World, engine: Engine, fields: dict[str, Any], reason: str, message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = fields or {"nodes": mapped(server.getsockname()[1])}
        for node in given.get("nodes", []):
            for mapping in node.get("extraPortMappings", []):
                mapping["listenAddress"] = "127.0.0.1"
        spec = world.spec("wrong", **given)
        found = world.create(spec)
    assert (found.phase, found.reason) == ("failed", reason), found.error
    assert message in found.error
    assert found.retry_after > 0
    assert engine.nodes("wrong") == []


def test_published_node_image(tmp_path: Path) -> None:
    image = IMAGES["1.37"]
    for name in ("docker", "podman"):
        found = subprocess.run([name, "image", "inspect", image], capture_output=True) if shutil.which(name) else None
        if found and not found.returncode:
            break
    else:
        pytest.skip(f"neither docker nor podman has the image {image}")
    world = World(tmp_path / "kind", {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": name})
    spec = InstanceSpec(tmp_path.name, "capi-functions-test", {"kubernetesVersion": "1.37"})
    try:
        instance = world.create(spec, within=600)
        assert instance.phase == "ready", instance.error
        assert connect.workload(instance.kubeconfig).text("/readyz") == "ok"
    finally:
        world.delete(spec)
