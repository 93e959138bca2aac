"""The commands of the page about migrating from cluster-stack-operator, as written and in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.local import crds
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, CONFIG_MAP
from shared.event import change_event
from shared.kube import ApiError, Client, Key, Object, Resource
from shared.kube.crds import CRD
from tests.support.documents import ROOT, Shell, blocks
from tests.support.objects import manifest
from tests.support.other_managers import Manager, running
from tests.support.planes import connected, running_plane
from tests.support.releases import config_map, write_release
from tests.support.stacks import definition
from tests.support.world import World

PAGE = ROOT / "docs" / "migrating-from-cluster-stack-operator.md"
HOOKS = Resource("runtime.cluster.x-k8s.io", "v1alpha1", "ExtensionConfig", "extensionconfigs", namespaced=False)
HOOKS_NAME = "cso-hook-server-extensionconfig"


@pytest.fixture
def workload(tmp_path: Path) -> Iterator[tuple[bytes, Client]]:
    """A cluster that does not manage clusters."""
    with running_plane(tmp_path / "workload", groups=()) as folder, connected(folder) as client:
        yield local_control_plane.kubeconfig(folder).read_bytes(), client


@pytest.fixture
def hooks(management: Client) -> Iterator[None]:
    """The operator's ExtensionConfig."""
    crd = definition(HOOKS)
    crd["spec"]["scope"] = "Cluster"
    crds.install(management, [crd])
    service = {"name": "cso-hook-server-svc", "namespace": "cso-system", "port": 443}
    spec = {"clientConfig": {"service": service}, "namespaceSelector": {}}
    management.create(HOOKS, manifest(HOOKS, HOOKS_NAME, spec=spec))
    yield
    management.delete(CRD, Key("", crd["metadata"]["name"]))


@pytest.fixture
def operator(management: Client) -> Iterator[Manager]:
    kinds = (CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE)
    key = Key("cso-system", "cso-controller-manager")
    labels = {"cluster.x-k8s.io/provider": "cluster-stack-operator"}
    with running(Manager(management, key, "cso", labels, [(kind, "validating") for kind in kinds])) as manager:
        yield manager


@pytest.fixture
def functions(management: Client) -> Iterator[Manager]:
    """The Deployment of the functions."""
    labels = {"app": "capi-functions"}
    with running(Manager(management, Key("capi-functions", "capi-functions"), "none", labels, ())) as manager:
        yield manager
        management.delete(CONFIG_MAP, Key("capi-functions", "capi-functions-releases"))


@pytest.fixture
def left(world: World, workload: tuple[bytes, Client]) -> str:
    """Two objects that the operator has applied. An upgrade has skipped `net`. Returns the class."""
    kubeconfig, there = workload
    name = write_release(world.releases, "v2", [config_map("net", "2"), config_map("new", "2")])
    for obj in (config_map("net", "1"), config_map("new", "2")):
        obj["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
        there.apply(CONFIG_MAP, obj, manager="kubectl")
    cluster = world.cluster(name)
    world.secret(kubeconfig)
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"spec": {"clusterStack": name, "version": "v2"}})
    common = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "default", "status": "synced"}
    ready = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status: Object = {
        "ready": True,
        "conditions": [{**ready, "type": type_} for type_ in ("Ready", "ClusterReady", "HelmChartApplied")],
        "resources": [{**common, "name": each} for each in ("net", "new")],
    }
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"status": status}, subresource="status")
    return name


def test_commands_of_the_page_take_over_and_go_back(
    world: World,
    workload: tuple[bytes, Client],
    left: str,
    hooks: None,
    operator: Manager,
    functions: Manager,
    shell: Shell,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    [settings] = blocks(PAGE, "Before")
    stop, look, repair = blocks(PAGE, "Take over")
    [back] = blocks(PAGE, "The way back")
    there = workload[1]

    def value() -> str:
        return str(there.get(CONFIG_MAP, Key("default", "net"))["data"]["k"])

    with pytest.raises(ApiError, match=operator.service):
        world.cluster(left, paused=False)
    own = tmp_path / "kubeconfig"
    own.write_bytes(kubeconfig.read_bytes())
    shell.run(f"export KUBECONFIG={own}\nkubectl config set-context --current --namespace={world.namespace}")
    shell.run(f"{settings}\n{stop}")
    assert (operator.replicas(), world.client.find(HOOKS, Key("", HOOKS_NAME))) == (0, None)

    assert world.settle().message == "already reconciled"
    output = shell.run(look)
    assert "~ update    ConfigMap default/net" in output
    assert "1 to update, 1 unchanged" in output
    assert value() == "1"
    shell.run(repair)
    wanted = world.resync().reply
    assert wanted is not None
    fetched = world.call("release_assets", wanted).reply
    assert fetched is not None
    world.call("addon_apply", fetched)
    world.resync(repeated=True)
    assert value() == "2"
    assert all(entry["uid"] for entry in world.entries().values())

    shell.run(back)
    assert (operator.replicas(), functions.replicas()) == (1, 0)
    assert (
        world.client.get(HOOKS, Key("", HOOKS_NAME))["spec"]["clientConfig"]["service"]["name"] == "cso-hook-server-svc"
    )
    with pytest.raises(ApiError, match=operator.service):
        world.cluster(left, paused=False)
