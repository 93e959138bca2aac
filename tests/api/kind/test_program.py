"""KINDClusters of the runtime `kind`: the real kind program and a real container engine.

With docker and a node image on the machine one journey uses these. Elsewhere podman runs a control plane without a
kubelet, see `tests.support.kind_engine`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
from tests.support.until import HANGS, until

pytestmark = pytest.mark.timeout(1800)  # another test run may use podman's networks


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with kind_engine.podman():
        yield Engine("podman")


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

    def create(self, spec: InstanceSpec, within: float = HANGS) -> Instance:
        """Creates the instance and returns what came of it."""
        self.runtime.create(spec, None)
        return self.outcome(spec, within)

    def outcome(self, spec: InstanceSpec, within: float = HANGS) -> Instance:
        """Returns what came of an instance whose creation was started."""
        until(
            lambda: self.runtime.inspect(spec).phase != "starting",
            within=within,
            details=lambda: self.job(spec).log.read_text(),
        )
        return self.runtime.inspect(spec)

    def delete(self, spec: InstanceSpec) -> None:
        until(lambda: self.deleted(spec))

    def deleted(self, spec: InstanceSpec) -> bool:
        try:
            self.runtime.delete(spec)
        except StillDeleting:
            return False
        return True


@pytest.fixture(scope="module")
def world(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    del engine
    world = World(tmp_path_factory.mktemp("kind"))
    yield world
    for spec in world.specs.values():
        world.delete(spec)


def first(**fields: Any) -> dict[str, Any]:
    return {"nodes": [{"role": "control-plane", **fields}]}


def added(path: str) -> dict[str, str]:
    """Returns a JSON patch of kubeadm's configuration of the cluster, which adds an address."""
    operation = {"op": "add", "path": path, "value": "192.0.2.7"}
    return {"kind": "ClusterConfiguration", "patch": json.dumps([operation])}


@pytest.fixture(scope="module")
def refused(world: World) -> Iterator[dict[str, InstanceSpec]]:
    """Clusters that cannot be created, each for another reason, and whose jobs work side by side."""
    labels = ("--label=io.x-k8s.kind.cluster=theirs", "--label=io.x-k8s.kind.role=control-plane")
    subprocess.run(["podman", "create", "--name=theirs", *labels, kind_engine.IMAGE], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = {"containerPort": 80, "hostPort": server.getsockname()[1], "listenAddress": "127.0.0.1"}
        specs = {
            "subnet": world.spec("subnet", networking={"podSubnet": "aa"}),
            "mount": world.spec("mount", **first(extraMounts=[{"hostPath": "/nowhere", "containerPath": "/x"}])),
            "port": world.spec("port", **first(extraPortMappings=[taken])),
            "theirs": world.spec("theirs"),
            "image": world.spec("image", image="127.0.0.1:1/none:1"),
            "patch": world.spec("patch", kubeadmConfigPatchesJSON6902=[added("/nowhere/certSANs/-")]),
        }
        for spec in specs.values():
            world.runtime.create(spec, None)
        yield specs


def test_cluster_is_continued_restarted_and_deleted(
    world: World, engine: Engine, refused: dict[str, InstanceSpec]
) -> None:
    del refused  # their jobs work meanwhile
    spec = world.spec("one", kubeadmConfigPatchesJSON6902=[added("/apiServer/certSANs/-")])
    brief = world.spec("brief")
    for each in (spec, brief):
        world.runtime.create(each, None)
    until(lambda: engine.nodes("one") and engine.nodes("brief"))
    # One is interrupted while kind prepares the node, and continued; the other one is deleted.
    world.job(spec).interrupt()
    assert world.runtime.inspect(spec).phase == "absent"
    world.runtime.create(spec, None)
    world.delete(brief)
    assert engine.nodes("brief") == []
    instance = world.outcome(spec)
    assert instance.phase == "ready", instance.error
    assert connect.workload(instance.kubeconfig).text("/readyz") == "ok"
    assert (instance.host, instance.ca[0][:10]) == ("127.0.0.1", b"-----BEGIN")
    assert connect.workload(instance.kubeconfig).text("/version").count(f'"{instance.version}"') == 1
    assert list(world.runtime.ended()) == []
    assert "192.0.2.7" in engine.read("one-control-plane", "/kind/kubeadm.conf").decode()
    # Its node is stopped, and started again with the same address and CA.
    [node] = engine.nodes("one")
    subprocess.run(["podman", "kill", node.name], check=True, capture_output=True)
    assert list(world.runtime.ended()) == ["one"]
    stopped = world.runtime.inspect(spec)
    assert (stopped.phase, stopped.reason) == ("absent", "NodesStopped")
    assert stopped.error == f"containers are stopped: {node.name}"
    assert world.create(spec) == instance
    # Others in the engine's network reach it by the name of the node.
    inside = world.create(replace(spec, fields={**spec.fields, "endpointAccess": "Network"}))
    assert (inside.host, inside.port) == (node.name, 6443)
    assert f"server: https://{node.name}:6443" in inside.kubeconfig.decode()
    # Its node is deleted: another one is created.
    subprocess.run(["podman", "rm", "--force", "--volumes", node.name], check=True, capture_output=True)
    assert list(world.runtime.ended()) == ["one"]
    gone = world.runtime.inspect(spec)
    assert (gone.phase, gone.reason, gone.error) == (
        "absent",
        "InstanceGone",
        "the containers of the cluster do not exist",
    )
    again = world.create(spec)
    assert (again.phase, again.host) == ("ready", "127.0.0.1")
    world.delete(spec)
    assert engine.nodes("one") == []
    assert world.runtime.inspect(spec).phase == "absent"
    assert not world.job(spec).folder.exists()
    world.delete(spec)


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("subnet", "InvalidConfiguration", "invalid pod subnet"),
        ("mount", "InvalidConfiguration", "/nowhere"),
        ("port", "PortTaken", "free the port"),
        ("theirs", "NameTaken", "another cluster has this name and stays unchanged"),
        ("image", "ImageNotFound", "check spec.image"),
        ("patch", "InvalidConfiguration", "/nowhere/certSANs"),
    ],
)
def test_error_of_the_real_program_has_a_class_and_leaves_nothing(
    world: World, engine: Engine, refused: dict[str, InstanceSpec], name: str, reason: str, message: str
) -> None:
    found = world.outcome(refused[name])
    assert (found.phase, found.reason) == ("failed", reason), found.error
    assert message in found.error
    result = world.job(refused[name]).result
    assert result is not None
    assert result.retry_at > 0
    foreign = ["theirs"] if name == "theirs" else []
    assert [node.name for node in engine.nodes(name)] == foreign
    world.delete(refused[name])
    assert [node.name for node in engine.nodes(name)] == foreign


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
