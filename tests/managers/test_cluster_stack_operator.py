"""cluster-stack-operator upgrades a Cluster, our functions take over by the page, and the operator gets it back.

The operator knows Cluster of v1beta1 only. Nobody converts it here, so the Cluster has its class in the fields of both
versions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from infra import local_control_plane
from infra.local import crds
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CONFIG_MAP,
    NAMESPACE,
)
from shared.clients import Clients
from shared.kube import ApiError, Client, Key, Object, Resource, dig
from tests.support import objects
from tests.support.documents import ROOT, Shell, blocks
from tests.support.other_managers import Manager, running
from tests.support.planes import connected, running_plane
from tests.support.ports import exclusive, free_port
from tests.support.provider_installers import cert_manager
from tests.support.real_managers import RealManager
from tests.support.releases import config_map
from tests.support.stacks import CLASS, TEMPLATE, TOY, Stacks, definition
from tests.support.until import logged, until
from tests.support.world import World

MODULE, VERSION = "github.com/SovereignCloudStack/cluster-stack-operator", "v0.1.0-alpha.7"
PAGE = ROOT / "docs" / "migrating-from-cluster-stack-operator.md"
OPERATOR = Key("cso-system", "cso-controller-manager")
HOOKS = Resource("runtime.cluster.x-k8s.io", "v1alpha1", "ExtensionConfig", "extensionconfigs", namespaced=False)
KINDS = (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLUSTER_ADDON)
PORT = 9443
"""The port of the operator's webhooks, a constant of its source."""
SPACE = "kube-system"
"""The namespace of all objects that the operator applies."""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Path]:
    """A management cluster with Clusters and classes, and without our kinds."""
    with running_plane(tmp_path / "plane", groups=()) as folder:
        with connected(folder) as client:
            hooks = definition(HOOKS)
            hooks["spec"]["scope"] = "Cluster"
            made = [definition(CLASS), definition(TEMPLATE), definition(TOY), hooks]
            crds.install(client, [*made, *_definitions(CLUSTER)])
        yield folder


@pytest.fixture
def workload(tmp_path: Path) -> Iterator[tuple[bytes, Client]]:
    with running_plane(tmp_path / "workload", groups=()) as folder, connected(folder) as client:
        yield local_control_plane.kubeconfig(folder).read_bytes(), client


@pytest.fixture
def stacks(plane: Path, object_store: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stacks]:
    """Our functions, with the releases that the operator has in its folder."""
    folder = tmp_path / "operator" / "cluster-stacks"
    folder.mkdir(parents=True)
    monkeypatch.setenv("RELEASE_SOURCE", str(folder))
    with connected(plane) as client, connected(plane) as theirs:
        client.create(NAMESPACE, objects.manifest(NAMESPACE, "team"))
        yield Stacks(client, Clients(theirs), "team", folder)


@pytest.fixture
def operator(stacks: Stacks, plane: Path, kubectl: Path) -> Iterator[RealManager]:
    kubeconfig, folder = local_control_plane.kubeconfig(plane), stacks.folder.parent
    manager = RealManager(stacks.client, kubeconfig, folder, MODULE, VERSION, OPERATOR, PORT)
    with exclusive(f"port-{PORT}"), cert_manager(stacks.client):
        manager.install(kubectl)
        served = folder / "k8s-webhook-server" / "serving-certs"
        served.mkdir(parents=True)
        for name in ("tls.crt", "tls.key"):
            shutil.copy(folder / name, served / name)
        yield manager


@pytest.fixture
def functions(stacks: Stacks) -> Iterator[Manager]:
    """The Deployment of the functions."""
    labels = {"app": "capi-functions"}
    with running(Manager(stacks.client, Key("capi-functions", "capi-functions"), "none", labels, ())) as manager:
        yield manager


@pytest.mark.timeout(3600)
def test_cluster_changes_hands_without_a_change_in_it(
    stacks: Stacks,
    workload: tuple[bytes, Client],
    operator: RealManager,
    functions: Manager,
    shell: Shell,
    helm: Path,
) -> None:
    kubeconfig, there = workload
    client, details = stacks.client, logged(operator.log)
    world = World(client, stacks.namespace, kubeconfig, stacks.clients, stacks.folder)
    [settings] = blocks(PAGE, "Before")
    stop, look, _ = blocks(PAGE, "Take over")
    [back] = blocks(PAGE, "The way back")
    for number, names in enumerate((("net", "old"), ("net", "new"), ("net", "new", "last")), 1):
        _publish(stacks, f"v{number}", [config_map(name, str(number), SPACE) for name in names])

    def state() -> dict[str, object]:
        """Returns the resourceVersions in the workload cluster, and the uids in the management cluster."""
        found = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in there.list(CONFIG_MAP, SPACE)}
        kept = {
            f"{kind.kind} {obj['metadata']['name']}": obj["metadata"]["uid"]
            for kind in (*KINDS, CLASS)
            for obj in client.list(kind, stacks.namespace)
        }
        return {**found, **kept}

    def moved(version: str) -> None:
        name = f"test-stack-1-36-{version}"
        world.cluster(topology={"class": name, "classRef": {"name": name}, "version": "v1.36.3"})
        until(lambda: _has_addons(world, name), f"the addons of {name}", details=details)

    with _process(operator, helm):
        until(lambda: not _refusal(stacks), "the webhooks answer", details=details)
        until(lambda: len(stacks.names(CLASS)) == 3, "the classes", details=details)
        world.secret()
        moved("v1")
        moved("v2")
    before = state()
    assert {"net", "new"} < before.keys()
    assert "old" not in before
    assert _value(there, "net") == "1", "the operator skips what both releases have"

    assert "failed calling webhook" in _refusal(stacks)
    own = operator.folder / "kubeconfig"
    own.write_bytes(operator.kubeconfig.read_bytes())
    shell.run(f"export KUBECONFIG={own}\nkubectl config set-context --current --namespace={stacks.namespace}")
    shell.run(f"{settings}\n{stop}")
    assert (operator.replicas(), _refusal(stacks)) == (0, "")
    crds.install(client, _definitions(*KINDS))
    assert world.settle().message == "already reconciled"
    stacks.settle()
    world.resync()
    assert state() == before
    output = shell.run(look)
    assert f"~ update    ConfigMap {SPACE}/net" in output
    assert "1 to update, 1 unchanged" in output

    shell.run(back)
    assert (operator.replicas(), functions.replicas()) == (1, 0)
    assert "failed calling webhook" in _refusal(stacks)
    with _process(operator, helm):
        until(lambda: not _refusal(stacks), "the webhooks answer again", details=details)
        moved("v3")
    after = state()
    assert after.pop("last")
    assert after == before


def _definitions(*kinds: Resource) -> list[Object]:
    names = {f"{kind.plural}.{kind.group}" for kind in kinds}
    return [crd for crd in crds.load() if crd["metadata"]["name"] in names]


def _publish(stacks: Stacks, version: str, addons: list[Object]) -> None:
    """Writes a release whose metadata names a node image, as the operator requires it."""
    folder = stacks.folder / stacks.publish(version, objects=addons, values="a: b\n")
    metadata = yaml.safe_load((folder / "metadata.yaml").read_text())
    metadata["versions"]["components"]["nodeImage"] = "v1"
    (folder / "metadata.yaml").write_text(yaml.safe_dump(metadata))


def _process(operator: RealManager, helm: Path) -> AbstractContextManager[None]:
    flags = (
        "--local",
        f"--release-dir={operator.folder}",
        "--leader-elect=false",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{free_port()}",
        f"--hook-port={free_port()}",
        f"--hook-cert-dir={operator.folder}",
    )
    return operator.process("cmd", flags, f"{helm.parent}{os.pathsep}{os.environ['PATH']}")


def _refusal(stacks: Stacks) -> str:
    """Applies the ClusterStack; returns the error, which is empty if the write is accepted."""
    try:
        stacks.stack(versions=["v1", "v2", "v3"], channel="stable", autoSubscribe=False)
    except ApiError as error:
        return error.detail
    return ""


def _has_addons(world: World, class_name: str) -> bool:
    addon = world.client.find(CLUSTER_ADDON, world.addon_key)
    return dig(addon, "spec.clusterStack") == class_name and dig(addon, "status.ready") is True


def _value(there: Client, name: str) -> str:
    return str(there.get(CONFIG_MAP, Key(SPACE, name))["data"]["k"])
