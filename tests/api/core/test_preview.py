"""The preview of a topology change, compared with what an unmodified core then does to the real objects."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from infra import local_control_plane
from infra.cli.main import app
from infra.cli.terminal import topology_plan_text
from infra.operations.preview import Change, TopologyPlan, preview, preview_class
from infra.operations.preview.progress import State, cluster_in, identify, is_reconciled, topology_condition
from infra.operations.preview.result import MachineChange, ObjectChange, machine_changes, object_changes
from infra.operations.preview.snapshot import OWN_CONTROLLERS, Kind, take
from infra.operations.read_only import ReadOnlyClient
from shared.api.cluster import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from shared.api.names import kubeconfig_secret_of
from shared.api.resources import (
    CLUSTER,
    CONFIG_MAP,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
    NAMESPACE,
    NODE,
    SECRET,
)
from shared.kube import ApiError, Client, Key, Object, Resource, Unavailable, connect, dig, key_of
from tests.support import topology_classes
from tests.support.live_core import LiveCore, live_core
from tests.support.objects import manifest
from tests.support.real_providers import in_memory_cluster
from tests.support.until import until

pytestmark = pytest.mark.timeout(1800)  # another test run may use the port of the managers
OLD, NEW = "v1.35.0", "v1.36.0"
SPACE = "preview"
READER = "reader"
SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""The random end of a name."""


def two_workers(topology: Object) -> None:
    topology["workers"]["machineDeployments"][0]["replicas"] = 2


def second_deployment(topology: Object) -> None:
    deployments = topology["workers"]["machineDeployments"]
    deployments.append({**deployments[0], "name": "md-1"})


def first_deployment(topology: Object) -> None:
    del topology["workers"]["machineDeployments"][1:]
    del topology["workers"]["machinePools"]


CHANGES: Mapping[str, Change] = {
    "version": Change(version=NEW),
    "nothing": Change(),
    "class": Change(class_name="v2"),
    "renamed": Change(class_name="renamed"),
    "variable": Change(variables={"zone": "b"}),
    "smaller": Change(class_name="smaller"),
    "replicas": Change(),
    "added": Change(),
    "removed": Change(),
    "broken": Change(class_name="broken"),
    "immutable": Change(class_name="external-etcd"),
    "unknown": Change(variables={"unknown": 1}),
}
"""The changes by the name of their Cluster."""
EDITS: Mapping[str, Callable[[Object], None]] = {
    "replicas": two_workers,
    "added": second_deployment,
    "removed": first_deployment,
}
"""Changes of the topology in a manifest of the Cluster."""
WITH_POOL = ("version", "class", "removed")
"""Clusters with a MachinePool."""
REFUSED = {
    "broken": "patch zones",
    "immutable": "webhook validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io",
    "unknown": "webhook default.cluster.cluster.x-k8s.io",
}
"""What refuses a change, by the name of the Cluster."""


def cluster_object(name: str) -> Object:
    _, [obj] = in_memory_cluster(Key(SPACE, name), OLD)
    obj["spec"]["topology"]["classRef"] = {"name": "v1"}
    if name == "removed":
        second_deployment(obj["spec"]["topology"])
    if name in WITH_POOL:
        pool = {"class": "default-worker", "name": "mp-0", "replicas": 3}
        obj["spec"]["topology"]["workers"]["machinePools"] = [pool]
    return obj


def changed(name: str) -> Change:
    if name not in EDITS:
        return CHANGES[name]
    obj = cluster_object(name)
    EDITS[name](obj["spec"]["topology"])
    return Change(manifests=(obj,))


@dataclass
class World:
    """The previews, and the objects of the live core from before the changes."""

    core: LiveCore
    plans: Mapping[str, TopologyPlan]
    before: State
    resources: Mapping[Kind, Resource]
    errors: Mapping[str, ApiError]

    def state(self) -> State:
        return read(self.core.client, self.resources)


def read(client: Client, resources: Mapping[Kind, Resource]) -> State:
    kinds = [one for one in resources.values() if one.namespaced and one.group.split(".")[0] not in OWN_CONTROLLERS]
    return identify(obj for kind in kinds for obj in client.list(kind, SPACE))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch, live_core(tmp_path_factory.mktemp("live-core"), patch) as core:
        yield prepare(core)


def prepare(core: LiveCore) -> World:
    """Creates a Cluster for each change, previews all changes, and makes them."""
    core.apply(manifest(NAMESPACE, SPACE), *topology_classes.classes(SPACE))
    keys = {name: Key(SPACE, name) for name in CHANGES}
    core.apply(*map(cluster_object, keys))
    with closing(ReadOnlyClient(core.client)) as reader:
        resources = take(reader, {keys["nothing"]: Change()}).resources

    def is_ready() -> bool:
        followed = (CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET)
        try:
            state = identify(obj for kind in followed for obj in core.client.list(kind, SPACE))
        except Unavailable:  # a busy server, while all Clusters start
            return False
        machines = [dig(obj, "status.nodeRef.name") for id_, obj in state.items() if id_[1] == MACHINE.kind]
        return (
            all(is_reconciled(state, key) for key in keys.values())
            and len(machines) == 2 * len(keys) + 1
            and all(machines)
        )

    def details() -> object:
        return [dig(core.client.get(CLUSTER, key), "status.conditions") for key in keys.values()]

    until(is_ready, "all Clusters have their Machines", within=900, pause=0.5, details=details)
    add_node(core, keys["version"])
    user = local_control_plane.add_user(core.run.plane, READER, ["system:masters"])
    with closing(connect.from_kubeconfig(str(user))) as client:
        plans = preview(client, {key: changed(name) for name, key in keys.items()}, print)
    before = read(core.client, resources)
    errors = {}
    for name, key in keys.items():
        cluster = core.client.get(CLUSTER, key)
        try:
            if found := changed(name).patch(cluster):
                core.client.patch(CLUSTER, key, found, manager="user")
        except ApiError as error:
            errors[name] = error
    return World(core, dict(zip(keys, plans, strict=True)), before, resources, errors)


def add_node(core: LiveCore, cluster: Key) -> None:
    """Makes a Node the Node of the Cluster's MachinePool, as the infrastructure of the pool would."""
    secret = core.client.get(SECRET, kubeconfig_secret_of(cluster))
    node = manifest(NODE, "pool-node", status={"nodeInfo": {"kubeletVersion": OLD}})
    with closing(connect.workload(base64.b64decode(secret["data"]["value"]))) as workload:
        workload.create(NODE, node)
    [pool] = core.client.list(MACHINE_POOL, SPACE, selector=f"{CLUSTER_NAME_LABEL}={cluster.name}")
    status = {"nodeRefs": [{"name": "pool-node"}]}
    core.client.patch(MACHINE_POOL, key_of(pool), {"status": status}, subresource="status")


def named(text: str) -> str:
    return SUFFIX.sub("-*", text)


def comparable(changes: tuple[ObjectChange, ...], machines: tuple[MachineChange, ...]) -> list[str]:
    """Returns changes as text, without random names and without steps."""
    found = []
    for change in changes:
        fields = [[field.path, named(str(field.old)), named(str(field.new))] for field in change.fields]
        found.append(json.dumps([change.action, change.kind, named(change.name), change.replaces, sorted(fields)]))
    for machine in machines:
        found.append(json.dumps({**machine.dump(), "name": named(machine.name), "step": 0}))
    return sorted(found)


def await_the_same(world: World, plan: TopologyPlan, before: State) -> None:
    """Waits until core has done what a plan shows, and nothing else."""
    shown = comparable(plan.changes, plan.machines)

    def done() -> list[str]:
        states = [before, world.state()]
        return comparable(object_changes(states, plan.cluster), machine_changes(states, plan.cluster))

    until(lambda: done() == shown, "the same changes", details=lambda: json.dumps([shown, done()], indent=1))


@pytest.mark.parametrize("name", CHANGES)
def test_core_does_what_the_preview_has_shown(world: World, name: str) -> None:
    assert world.plans[name].pending == ()
    await_the_same(world, world.plans[name], world.before)


def test_preview_names_the_machines_to_replace_and_their_order(world: World) -> None:
    found = {
        name: [(one.step, one.action, one.kind, one.machines, *one.reasons) for one in plan.machines]
        for name, plan in world.plans.items()
    }
    plane, workers, pool = "KubeadmControlPlane", "MachineDeployment", "MachinePool"
    assert {name: changes for name, changes in found.items() if changes} == {
        "version": [
            (1, "replace", plane, 1, "version"),
            (2, "replace", workers, 1, "version"),
            (2, "replace", pool, 3, "version"),
        ],
        "class": [
            (1, "replace", plane, 1, "kubeadmConfigSpec"),
            (1, "replace", workers, 1, "bootstrap template"),
            (1, "replace", pool, 3, "bootstrap configuration"),
        ],
        "variable": [(1, "replace", workers, 1, "bootstrap template")],
        "smaller": [(1, "replace", workers, 1, "infrastructure template")],
        "replicas": [(1, "scale", workers, 2, "1 -> 2 replicas")],
        "added": [(1, "create", workers, 1)],
        "removed": [(1, "remove", workers, 1), (1, "remove", pool, 3)],
    }
    codes = {name: plan.exit_code for name, plan in world.plans.items()}
    assert codes == {name: 0 if name == "nothing" else 3 for name in CHANGES} | dict.fromkeys(REFUSED, 4)


@pytest.mark.parametrize("name", ["version", "class"])
def test_control_plane_replaces_its_machine(world: World, name: str) -> None:
    def machines() -> set[str]:
        found = world.core.client.list(MACHINE, SPACE, selector=f"{CLUSTER_NAME_LABEL}={name},{CONTROL_PLANE_LABEL}")
        return {obj["metadata"]["uid"] for obj in found}

    until(lambda: machines() - {obj["metadata"]["uid"] for obj in world.before.values()}, "a new Machine")


@pytest.mark.parametrize(("name", "by"), REFUSED.items())
def test_preview_shows_the_refusal_of_the_live_core(world: World, name: str, by: str) -> None:
    refusal, key = world.plans[name].refusal, Key(SPACE, name)

    def message() -> str:
        if name in world.errors:
            return world.errors[name].detail
        return str(topology_condition(cluster_in(world.state(), key)).get("message"))

    assert refusal is not None
    assert refusal.by == by
    until(lambda: message() == refusal.message, "the same message", details=lambda: [message(), refusal.message])


def test_preview_only_reads(world: World) -> None:
    """The API server's audit log has no write of the preview's user, and the client refuses to send one."""
    assert READER not in {user for user, _ in world.core.audit.writes()}
    with closing(ReadOnlyClient(world.core.client)) as reader:
        assert reader.get(NAMESPACE, Key("", SPACE))
        with pytest.raises(TypeError, match="only reads"):
            reader.create(CONFIG_MAP, manifest(CONFIG_MAP, "any", SPACE))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent", "--class", "v2"), f"Cluster {SPACE}/absent does not exist"),
        (("class", "--class", "absent"), f"ClusterClass {SPACE}/absent does not exist"),
        (("class", "--set-variable", "zone"), "must be NAME=VALUE"),
    ],
)
def test_command_says_what_cannot_be_previewed(world: World, arguments: tuple[str, ...], message: str) -> None:
    target = ("-n", SPACE, "--kubeconfig", str(world.core.run.kubeconfig))
    with patch.dict(os.environ):  # the command takes the settings of the run
        result = CliRunner().invoke(app, ["plan", "cluster", *arguments, *target])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_text_of_the_command(world: World) -> None:
    text = "\n".join(topology_plan_text.lines(world.plans["version"]))
    for line in ("v1.35.0 -> v1.36.0", "1. [red]1 machine replaced[/red]  KubeadmControlPlane", "2. [red]1 machine"):
        assert line in text
    assert "webhook validation.kubeadmcontrolplane" in "\n".join(topology_plan_text.lines(world.plans["immutable"]))


def test_change_of_a_class_shows_what_core_does_to_each_of_its_clusters(world: World) -> None:
    """The class v1 gets the content of v2, after the other tests have changed the workers of some of its Clusters."""
    content = next(obj for obj in topology_classes.classes(SPACE) if obj["metadata"]["name"] == "v2")
    changed_class = {**content, "metadata": {**content["metadata"], "name": "v1"}}
    plan = preview_class(world.core.client, Key(SPACE, "v1"), Change(manifests=(changed_class,)), print)
    plans = {one.cluster.name: one for one in plan.plans}
    assert set(plans) == {"version", "nothing", "variable", *EDITS, "unknown"}
    [group] = [group for group in plan.groups if Key(SPACE, "nothing") in group.clusters]
    assert {key.name for key in group.clusters} >= {"nothing", "unknown", "variable"}
    assert group.example.replaced == 2
    before = world.state()
    world.core.apply(changed_class)
    for name in ("nothing", "unknown", "variable", "replicas", "added"):  # without Docker, the deletion of a pool waits
        assert plans[name].changes
        await_the_same(world, plans[name], before)
