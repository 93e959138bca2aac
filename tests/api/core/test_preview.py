"""The preview of a topology change, compared with what an unmodified core then does to the real objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from infra import local_control_plane
from infra.cli.main import app
from infra.cli.terminal import topology_plan_text
from infra.operations.preview import Change, TopologyPlan, preview
from infra.operations.preview.progress import State, cluster_in, identify, is_reconciled, topology_condition
from infra.operations.preview.reader import ReadOnlyClient
from infra.operations.preview.result import MachineChange, ObjectChange, machine_changes, object_changes
from infra.operations.preview.snapshot import OWN_CONTROLLERS, Kind, take
from shared.api.cluster import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from shared.api.resources import CLUSTER, CLUSTER_CLASS, CONFIG_MAP, MACHINE, NAMESPACE
from shared.kube import ApiError, Client, Key, Object, Resource, connect, dig
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

Topology = Callable[[Object], None]


def of_class(name: str) -> Topology:
    return lambda topology: topology.update(classRef={"name": name})


def two_workers(topology: Object) -> None:
    topology["workers"]["machineDeployments"][0]["replicas"] = 2


CHANGES: Mapping[str, Change] = {
    "version": Change(version=NEW),
    "nothing": Change(),
    "class": Change(class_name="v2"),
    "renamed": Change(class_name="renamed"),
    "variable": Change(variables={"zone": "b"}),
    "replicas": Change(),
    "broken": Change(class_name="broken"),
    "immutable": Change(class_name="external-etcd"),
    "unknown": Change(variables={"unknown": 1}),
}
"""The changes by the name of their Cluster."""
REFUSED = {
    "broken": "patch zones",
    "immutable": "webhook validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io",
    "unknown": "webhook default.cluster.cluster.x-k8s.io",
}
"""What refuses a change, by the name of the Cluster."""


def classes() -> list[Object]:
    """Returns the classes with their templates: v1, and what the changes are to."""
    templates, _ = in_memory_cluster(Key(SPACE, "any"), OLD)

    def of(name: str, edit: Callable[[dict[str, Object]], None] = lambda _by_kind: None) -> list[Object]:
        objects = deepcopy(templates)
        for obj in objects:
            obj["metadata"]["name"] = rename(obj["metadata"]["name"], name)
            for reference in references(obj["spec"]):
                reference["name"] = rename(reference["name"], name)
        by_kind = {obj["kind"]: obj for obj in objects}
        value = {
            "op": "add",
            "path": f"{KUBELET}/-",
            "valueFrom": {"template": "{name: node-labels, value: zone={{ .zone }}}"},
        }
        selector = {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfigTemplate",
            "matchResources": {"machineDeploymentClass": {"names": ["default-worker"]}},
        }
        by_kind[CLUSTER_CLASS.kind]["spec"] |= {
            "variables": [
                {"name": "zone", "required": False, "schema": {"openAPIV3Schema": {"type": "string", "default": "a"}}}
            ],
            "patches": [{"name": "zones", "definitions": [{"selector": selector, "jsonPatches": [value]}]}],
        }
        edit(by_kind)
        return objects

    return [
        *of("v1"),
        *of("v2", with_more_arguments),
        *of("renamed"),
        *of("broken", with_broken_patch),
        *of("external-etcd", with_external_etcd),
    ]


KUBELET = "/spec/template/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs"


def rename(name: str, of: str) -> str:
    return of if name == "in-memory" else name.replace("in-memory", of)


def references(spec: Any) -> Iterator[Object]:
    if isinstance(spec, list):
        for each in spec:
            yield from references(each)
    elif isinstance(spec, dict):
        if "templateRef" in spec:
            yield spec["templateRef"]
        for each in spec.values():
            yield from references(each)


def kubeadm(template: Object) -> Object:
    found: Object = template["spec"]["template"]["spec"]["kubeadmConfigSpec"]
    return found


def with_more_arguments(by_kind: dict[str, Object]) -> None:
    kubeadm(by_kind["KubeadmControlPlaneTemplate"])["clusterConfiguration"]["apiServer"]["certSANs"].append("more.test")
    spec = by_kind["KubeadmConfigTemplate"]["spec"]["template"]["spec"]
    spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"].append({"name": "max-pods", "value": "50"})


def with_broken_patch(by_kind: dict[str, Object]) -> None:
    [patch] = by_kind[CLUSTER_CLASS.kind]["spec"]["patches"]
    patch["definitions"][0]["jsonPatches"][0]["path"] = "/spec/template/spec/missing/field"


def with_external_etcd(by_kind: dict[str, Object]) -> None:
    files = {"caFile": "/ca", "certFile": "/cert", "keyFile": "/key"}
    external = {"external": {"endpoints": ["https://127.0.0.1:2379"], **files}}
    kubeadm(by_kind["KubeadmControlPlaneTemplate"])["clusterConfiguration"]["etcd"] = external


def cluster_object(name: str) -> Object:
    _, [obj] = in_memory_cluster(Key(SPACE, name), OLD)
    obj["spec"]["topology"]["classRef"] = {"name": "v1"}
    return obj


def changed(name: str) -> Change:
    if name != "replicas":
        return CHANGES[name]
    obj = cluster_object(name)
    two_workers(obj["spec"]["topology"])
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
    core.apply(manifest(NAMESPACE, SPACE), *classes())
    keys = {name: Key(SPACE, name) for name in CHANGES}
    core.apply(*map(cluster_object, keys))
    with closing(ReadOnlyClient(core.client)) as reader:
        resources = take(reader, {keys["nothing"]: Change()}).resources

    def is_ready() -> bool:
        state = read(core.client, resources)
        machines = [dig(obj, "status.nodeRef.name") for id_, obj in state.items() if id_[1] == MACHINE.kind]
        return (
            all(is_reconciled(state, key) for key in keys.values()) and len(machines) == 2 * len(keys) and all(machines)
        )

    def details() -> object:
        return [dig(core.client.get(CLUSTER, key), "status.conditions") for key in keys.values()]

    until(is_ready, "all Clusters have their Machines", details=details)
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


def named(text: str) -> str:
    return SUFFIX.sub("-*", text)


def comparable(changes: tuple[ObjectChange, ...], machines: tuple[MachineChange, ...]) -> list[str]:
    """Returns changes as text, without random names and without steps."""
    found = []
    for change in changes:
        fields = [[field.path, named(str(field.old)), named(str(field.new))] for field in change.fields]
        found.append(json.dumps([change.action, change.kind, named(change.name), change.replaces, sorted(fields)]))
    for machine in machines:
        found.append(json.dumps({**machine.dump(), "step": 0}))
    return sorted(found)


@pytest.mark.parametrize("name", CHANGES)
def test_core_does_what_the_preview_has_shown(world: World, name: str) -> None:
    plan, key = world.plans[name], Key(SPACE, name)
    shown = comparable(plan.changes, plan.machines)

    def done() -> list[str]:
        states = [world.before, world.state()]
        return comparable(object_changes(states, key), machine_changes(states, key))

    assert plan.pending == ()
    until(lambda: done() == shown, "the same changes", details=lambda: json.dumps([shown, done()], indent=1))


def test_preview_names_the_machines_to_replace_and_their_order(world: World) -> None:
    found = {
        name: [(one.step, one.action, one.kind, one.machines, *one.reasons) for one in plan.machines]
        for name, plan in world.plans.items()
    }
    plane, workers = "KubeadmControlPlane", "MachineDeployment"
    assert {name: changes for name, changes in found.items() if changes} == {
        "version": [(1, "replace", plane, 1, "version"), (2, "replace", workers, 1, "version")],
        "class": [
            (1, "replace", plane, 1, "kubeadmConfigSpec"),
            (1, "replace", workers, 1, "bootstrap template"),
        ],
        "variable": [(1, "replace", workers, 1, "bootstrap template")],
        "replicas": [(1, "scale", workers, 2, "1 -> 2 replicas")],
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
    result = CliRunner().invoke(app, ["plan", "cluster", *arguments, *target])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_text_of_the_command(world: World) -> None:
    text = "\n".join(topology_plan_text.lines(world.plans["version"]))
    for line in ("v1.35.0 -> v1.36.0", "1. [red]1 machine replaced[/red]  KubeadmControlPlane", "2. [red]1 machine"):
        assert line in text
    assert "webhook validation.kubeadmcontrolplane" in "\n".join(topology_plan_text.lines(world.plans["immutable"]))
