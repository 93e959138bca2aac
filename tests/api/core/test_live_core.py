"""Our functions beside the unmodified managers of Cluster API, which run as local processes."""

from __future__ import annotations

import base64
import copy
import itertools
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from events.delivery import HttpDelivery, InProcessDelivery
from events.forwarder import Forwarder
from functions import catalog
from functions.cluster.decide import decide
from functions.cluster.observe import observe
from infra import local_control_plane
from infra.local.local_run import TOKEN
from shared.api.cluster import CLUSTER_NAME_LABEL, class_name
from shared.api.conditions import get_condition, is_true
from shared.api.core import CORE_ANNOTATION
from shared.api.names import REGENERATE_ANNOTATION, kubeconfig_secret_of
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, KINDS
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_CLASS,
    CLUSTERCTL_PROVIDER,
    CONFIG_MAP,
    DEPLOYMENT,
    MACHINE,
    MACHINE_DEPLOYMENT,
    NAMESPACE,
    SECRET,
)
from shared.certificates import CertificateAuthority
from shared.clients import Clients
from shared.event import change_event
from shared.kube import ApiError, Client, Key, NotFound, Object, Resource, connect, deleting, dig, key_of, owned_by
from shared.runtime import Answer, Request
from tests.support import external_cluster, objects
from tests.support.live_core import OURS, USER, LiveCore, live_core, second_core
from tests.support.objects import manifest
from tests.support.planes import connected, running_plane
from tests.support.real_providers import CURRENT, in_memory_cluster, repository, run_clusterctl
from tests.support.releases import config_map, write_release
from tests.support.until import until

pytestmark = pytest.mark.timeout(1800)  # another test run may use the port of the managers
MEMORY = Key("default", "memory")
HOOKS = ("AfterControlPlaneInitialized", "BeforeClusterUpgrade", "AfterClusterUpgrade", "BeforeClusterDelete")
DEV_MACHINE = Resource("infrastructure.cluster.x-k8s.io", "v1beta2", "DevMachine", "devmachines")
DEV_MACHINE_FINALIZER = "dockermachine.infrastructure.cluster.x-k8s.io"
HEALTH_CHECK = Resource("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", "machinehealthchecks")
OLD, NEW = "v1.36.0", "v1.37.0"
DEPRECATED = ("Ready", "InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneReady")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCore]:
    with pytest.MonkeyPatch.context() as patch, live_core(tmp_path_factory.mktemp("live-core"), patch) as core:
        # It becomes Available while another test runs: managers try to connect too early, and again after 30 s.
        core.apply(*itertools.chain(*in_memory_cluster(MEMORY, OLD)))
        yield core


def cluster(key: Key, of_class: str, version: str, **spec: bool) -> Object:
    topology = {"classRef": {"name": of_class}, "version": version}
    return manifest(CLUSTER, key.name, key.namespace, spec={"topology": topology, **spec})


def condition(core: LiveCore, key: Key, type_: str) -> Object:
    return get_condition(dig(core.client.get(CLUSTER, key), "status.conditions"), type_) or {}


def test_addons_follow_the_cluster_of_a_live_core(core: LiveCore) -> None:
    """Applied, paused, upgraded and deleted, with the hooks of Cluster API."""
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "demo")
    addon = Key(key.namespace, f"cluster-addon-{key.name}")
    core.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}})
    external_cluster.install(core.client)
    core.enable_hooks()
    classes = [
        write_release(core.releases, version, [config_map("addon", version, key.namespace)]) for version in ("v1", "v2")
    ]
    for name in classes:
        core.apply(*external_cluster.class_objects(name, key.namespace))

    def wait(reached: Callable[[], object], what: str) -> None:
        def between() -> None:
            external_cluster.reconcile(core.client, key.namespace, core.kubeconfig)

        def details() -> object:
            found = core.client.find(CLUSTER, key), core.client.find(CLUSTER_ADDON, addon)
            return [dig(obj, "status.conditions") for obj in found]

        until(reached, what, between=between, details=details)

    def applied() -> str:
        return dig(core.client.find(CONFIG_MAP, Key(key.namespace, "addon")), "data.k", "")

    def paused() -> bool:
        ready = get_condition(dig(core.client.get(CLUSTER_ADDON, addon), "status.conditions"), "ClusterReady") or {}
        return condition(core, key, "Paused").get("status") == "True" and ready.get("reason") == "Paused"

    def version() -> str:
        (plane,) = core.client.list(external_cluster.PLANE, key.namespace)
        return dig(plane, "spec.version")

    core.apply(cluster(key, classes[0], OLD))
    wait(lambda: dig(core.client.find(CLUSTER_ADDON, addon), "status.ready"), "addons are applied")
    wait(lambda: condition(core, key, "Available").get("status") == "True", "Available")
    assert (applied(), version()) == ("v1", OLD)

    core.apply(cluster(key, classes[1], NEW, paused=True))
    wait(paused, "paused")
    assert (applied(), version()) == ("v1", OLD)
    core.apply(cluster(key, classes[1], NEW))
    wait(lambda: version() == NEW, "upgraded")
    assert applied() == "v2", "the upgrade waits for the addons of the new class"
    wait(lambda: core.hooks_called(key)["AfterClusterUpgrade"], "the end of the upgrade")

    core.client.delete(CLUSTER, key)
    wait(lambda: core.client.find(CLUSTER, key) is None, "deleted")
    called = core.hooks_called(key)
    assert {hook: outcomes[-1] for hook, outcomes in called.items()} == dict.fromkeys(HOOKS, "continue")
    assert called["BeforeClusterDelete"][0] == "block", "the deletion waits for the clean-up"
    assert core.audit.written_in_turns() == {}


GENERATED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: addon, namespace: NAMESPACE}
data: {password: '{{ randAlphaNum 16 }}'}
"""


@contextmanager
def without_core(folder: Path, core: LiveCore) -> Iterator[tuple[Client, Path]]:
    """Runs a management cluster in which clusterctl finds the providers, and our functions are the controllers."""
    with running_plane(folder / "plane") as plane, connected(plane) as client, connected(plane) as theirs:
        for provider in core.client.list(CLUSTERCTL_PROVIDER):
            metadata = {name: provider["metadata"][name] for name in ("name", "namespace", "labels")}
            client.apply(NAMESPACE, manifest(NAMESPACE, metadata["namespace"]), manager="user")
            client.create(CLUSTERCTL_PROVIDER, {**provider, "metadata": metadata})
        deliver = InProcessDelivery(catalog.handler, Clients(theirs))
        forwarder = Forwarder(theirs, catalog.triggers(profiles=("standalone",)), deliver)
        forwarder.start()
        try:
            yield client, local_control_plane.kubeconfig(plane)
        finally:
            forwarder.stop()


Target = Callable[[Path, LiveCore], AbstractContextManager[tuple[Client, Path]]]


@pytest.mark.parametrize(
    "run_target", [pytest.param(without_core, id="without core"), pytest.param(second_core, id="second core")]
)
@pytest.mark.usefixtures("object_store")
def test_addons_move_with_their_cluster_and_stay_as_they_are(
    core: LiveCore, run_target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To our functions alone, and to another core; that one's providers are installed by our functions, too."""
    monkeypatch.setenv("RELEASE_SOURCE", str(core.releases))
    with run_target(tmp_path, core) as (target, kubeconfig):
        external_cluster.install(target)
        move_and_delete(core, target, kubeconfig, tmp_path)


def move_and_delete(core: LiveCore, target: Client, there: Path, folder: Path) -> None:
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "moved")
    addon, workload = Key(key.namespace, f"cluster-addon-{key.name}"), f"{key.namespace}-workload"
    for name in (key.namespace, workload):
        core.apply(manifest(NAMESPACE, name))
    external_cluster.install(core.client)
    templates = {"all.yaml": GENERATED.replace("NAMESPACE", workload)}
    release = write_release(core.releases, "v1", templates=templates, stack=f"{key.namespace}-1-36")
    core.apply(*external_cluster.class_objects(release, key.namespace), cluster(key, release, OLD))

    def serve(client: Client) -> Callable[[], None]:
        return lambda: external_cluster.reconcile(client, key.namespace, core.kubeconfig)

    def has_moved_in(client: Client) -> bool:
        found, its_addon = client.find(CLUSTER, key), client.find(CLUSTER_ADDON, addon)
        return is_true(dig(found, "status.conditions"), "Available") and dig(its_addon, "status.ready") is True

    def details(client: Client) -> Callable[[], object]:
        return lambda: [dig(client.find(*one), "status") for one in ((CLUSTER, key), (CLUSTER_ADDON, addon))]

    def owned() -> list[tuple[Resource, Object]]:
        kinds = (external_cluster.CLUSTER, external_cluster.PLANE)
        return [(kind, obj) for kind in kinds for obj in core.client.list(kind, key.namespace)]

    def belong_to_the_cluster() -> bool:
        owners = [[one["kind"] for one in dig(obj, "metadata.ownerReferences", [])] for _, obj in owned()]
        return owners == [[CLUSTER.kind]] * 2

    def collect_garbage() -> None:
        """Removes owners that are gone: core creates both objects before the Cluster, with another owner."""
        for kind, obj in owned():
            left = [owner for owner in dig(obj, "metadata.ownerReferences", []) if owner["kind"] == CLUSTER.kind]
            if left:  # core has added the Cluster
                core.client.patch(kind, key_of(obj), {"metadata": {"ownerReferences": left}})

    def secrets(client: Client) -> dict[str, object]:
        return {one["metadata"]["name"]: one["data"] for one in client.list(SECRET, key.namespace)}

    until(lambda: has_moved_in(core.client), "Available", between=serve(core.client), details=details(core.client))
    until(belong_to_the_cluster, "core, which may be behind, leaves the owners as they are", between=collect_garbage)
    applied, kept = core.client.get(CONFIG_MAP, Key(workload, "addon")), secrets(core.client)
    assert {name.removeprefix(f"{addon.name}-") for name in kept} == {"manifests", "generated", "moved-kubeconfig"}
    (here := folder / "user.kubeconfig").write_bytes(core.kubeconfig)
    configuration = repository(folder / "local", CURRENT)
    run_clusterctl(configuration, here, "move", "--namespace", key.namespace, "--to-kubeconfig", str(there))

    until(lambda: has_moved_in(target), "Available there", between=serve(target), details=details(target))
    assert core.client.get(CONFIG_MAP, Key(workload, "addon")) == applied, "the addons are not touched"
    assert secrets(target) == kept
    moved, its_addon = target.get(CLUSTER, key), target.get(CLUSTER_ADDON, addon)
    assert dig(its_addon, "spec.clusterRef.uid") == moved["metadata"]["uid"]
    assert [one["clusterStack"] for one in its_addon["status"]["history"]] == [release]
    kinds = (CLUSTER, CLUSTER_CLASS, CLUSTER_ADDON, SECRET, *external_cluster.KINDS)
    left = [obj["metadata"]["name"] for kind in kinds for obj in core.client.list(kind, key.namespace)]
    assert left == [], "nothing is left behind"
    assert [name for name in core.audit.written_in_turns() if key.namespace in name] == []
    target.delete(CLUSTER, key)
    until(lambda: target.find(CLUSTER, key) is None, "deleted there", between=serve(target), details=details(target))
    orphan = target.find(CLUSTER_ADDON, addon)
    assert orphan is None or owned_by(orphan, moved), "core leaves it to the garbage collector, which does not run here"


def test_cluster_in_memory_becomes_available(core: LiveCore) -> None:
    def details() -> object:
        return dig(core.client.get(CLUSTER, MEMORY), "status")

    until(lambda: condition(core, MEMORY, "Available").get("status") == "True", "Available", details=details)
    assert core.audit.written_in_turns() == {}


def test_addons_of_a_cluster_in_memory(core: LiveCore) -> None:
    """Its API server has no /readyz, which is reported, and no server-side apply; a real one gets the addons."""
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "demo")
    addon, secret = Key(key.namespace, f"cluster-addon-{key.name}"), kubeconfig_secret_of(key)
    stack = f"{key.namespace}-1-36"
    release = write_release(core.releases, "v1", [config_map("addon", "v1", key.namespace)], stack=stack)
    core.apply(manifest(NAMESPACE, key.namespace))
    templates, others = in_memory_cluster(key, OLD)
    for obj in (*templates, *others):
        if obj["kind"] == CLUSTER_CLASS.kind:
            obj["metadata"]["name"] = release
        elif obj["kind"] == CLUSTER.kind:
            obj["spec"]["topology"]["classRef"]["name"] = release
    core.apply(*templates, *others)

    def details() -> object:
        found = core.client.find(CLUSTER, key), core.client.find(CLUSTER_ADDON, addon)
        return [dig(obj, "status.conditions") for obj in found]

    def failure() -> str:
        found = get_condition(dig(core.client.find(CLUSTER_ADDON, addon), "status.conditions"), "Ready") or {}
        return found.get("message", "")

    until(lambda: condition(core, key, "Available").get("status") == "True", "Available", details=details)
    until(lambda: "/readyz" in failure(), "the missing call is reported", details=details)
    found = base64.b64decode(dig(core.client.get(SECRET, secret), "data.value"))
    with closing(connect.workload(found)) as memory, pytest.raises(ApiError) as refusal:
        memory.apply(CONFIG_MAP, config_map("addon", "v1", key.namespace), manager=USER)
    assert refusal.value.status == 415
    value = {"value": base64.b64encode(core.kubeconfig).decode()}
    core.client.patch(SECRET, secret, {"data": value})
    until(lambda: dig(core.client.get(CLUSTER_ADDON, addon), "status.ready") is True, "applied", details=details)
    assert dig(core.client.get(CONFIG_MAP, Key(key.namespace, "addon")), "data.k") == "v1"
    assert condition(core, key, "Available")["status"] == "True", "core stays connected to the first API server"
    assert [name for name in core.audit.written_in_turns() if key.namespace in name] == []
    core.client.delete(CLUSTER, key)
    until(lambda: core.client.find(CLUSTER, key) is None, "deleted", details=details)


def is_available(core: LiveCore, deployment: Key) -> bool:
    status = dig(core.client.get(DEPLOYMENT, deployment), "status", {})
    return is_true(status.get("conditions"), "Available") and status.get("availableReplicas") == 1


def test_killed_manager_is_started_again(core: LiveCore) -> None:
    key = Key("capi-system", "capi-controller-manager")
    pid = core.managers.pids[key.name]
    assert is_available(core, key)
    os.kill(pid, signal.SIGKILL)
    # It is reported as not Available before it is started again.
    until(lambda: core.managers.pids[key.name] not in (0, pid) and is_available(core, key), "Available again")
    assert core.audit.written_in_turns() == {}


def test_what_managers_change_in_their_components_is_no_drift(core: LiveCore) -> None:
    """Managers migrate CRDs, and write their status: a look for drift in the providers writes nothing."""
    functions = core.run.services.functions
    assert functions is not None
    deliver, before = HttpDelivery(functions.url, token=core.run.directory / TOKEN), len(core.audit.writes())
    for kind in (CORE, BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE):
        (provider,) = core.client.list(kind.resource)
        answer = deliver("provider_install", change_event(provider, "update", source="/test", resync=True))
        assert answer.status < 300, answer
    deliver.close()
    written = {name.partition("/")[0] for user, name in core.audit.writes()[before:] if user == OURS}
    assert written <= {kind.resource.plural for kind in KINDS}, "only providers are written, of the components nothing"


def test_manager_ends_and_starts_with_the_replicas_of_its_deployment(core: LiveCore) -> None:
    key = Key("capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-controller-manager")
    core.client.patch(DEPLOYMENT, key, {"spec": {"replicas": 0}})
    until(lambda: key.name not in core.managers.pids, "ended")
    assert not is_available(core, key)
    core.client.patch(DEPLOYMENT, key, {"spec": {"replicas": 1}})
    until(lambda: is_available(core, key), "Available again")


def test_kubeconfig_that_core_has_created_is_renewed_on_request(core: LiveCore) -> None:
    key, ca = Key(f"test-{uuid.uuid4().hex[:8]}", "demo"), CertificateAuthority.generate("kubernetes")
    clients, secret = Clients(core.client), kubeconfig_secret_of(key)

    def look() -> None:
        for name in ("cluster", "kubeconfig"):
            event = change_event(core.client.get(CLUSTER, key), "update", source="/test", resync=True)
            assert catalog.handler(name)(clients, event).status == 204

    def value() -> str:
        return dig(core.client.find(SECRET, secret), "data.value", "")

    core.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}})
    authority = objects.secret("demo-ca", key.namespace, **{"tls.crt": ca.cert_pem, "tls.key": ca.key_pem})
    authority["metadata"]["labels"] = {CLUSTER_NAME_LABEL: key.name}
    missing = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "missing"}
    spec = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}, "infrastructureRef": missing}
    core.apply(authority, manifest(CLUSTER, key.name, key.namespace, spec=spec))
    until(lambda: value() and condition(core, key, "Available"), "core has created the kubeconfig")
    by_core, status = value(), dig(core.client.get(CLUSTER, key), "status.conditions")
    look()
    assert value() == by_core
    # Core replaces all conditions, so it may remove one that was written meanwhile; the next event brings it again.
    until(lambda: condition(core, key, "KubeconfigAvailable"), "the condition stays", between=look)
    assert condition(core, key, "KubeconfigAvailable")["reason"] == "ManagedByClusterAPI"
    others = [
        one for one in dig(core.client.get(CLUSTER, key), "status.conditions") if one["type"] != "KubeconfigAvailable"
    ]
    assert {one["type"] for one in others} == {one["type"] for one in status}

    core.client.patch(CLUSTER, key, {"metadata": {"annotations": {REGENERATE_ANNOTATION: ""}}})
    look()
    renewed = value()
    assert renewed != by_core
    credentials = connect.inline_credentials(base64.b64decode(renewed))
    assert credentials.host == "https://127.0.0.1:6443"
    assert ca.has_issued(credentials.certificate)
    core.client.patch(CLUSTER, key, {"spec": {"paused": True}})
    until(lambda: condition(core, key, "Paused").get("status") == "True", "core has seen all of this")
    assert value() == renewed
    assert condition(core, key, "KubeconfigAvailable")["reason"] == "ManagedByClusterAPI"


# -- our Cluster controller, compared with core --------------------------------------------------------------------


def differences(core: LiveCore, key: Key) -> dict[str, tuple[object, object]]:
    """Returns what core reports of a Cluster otherwise than `cluster` would if there were no core: (core's, ours)."""
    live = core.client.get(CLUSTER, key)
    unmanaged: Object = copy.deepcopy(live)
    del unmanaged["metadata"]["managedFields"]
    for entry in unmanaged["status"]["conditions"]:
        entry.pop("observedGeneration" if entry["type"] == "TopologyReconciled" else "", None)
    observed = observe(Clients(core.client), Request(change_event(unmanaged, "update", source="/test"), key, unmanaged))
    theirs, ours = (_facts(status) for status in (live["status"], decide(observed, datetime.now(UTC)).status or {}))
    return {name: (theirs.get(name), ours.get(name)) for name in theirs | ours if theirs.get(name) != ours.get(name)}


def _facts(status: Object) -> dict[str, object]:
    """Returns conditions and other fields of a status by name, without times."""
    facts: dict[str, object] = {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]
    }
    facts["order"] = [one["type"] for one in status["conditions"]]
    facts["phase"] = status.get("phase")
    for name in ("initialization", "controlPlane", "workers"):
        facts[name] = {field: value for field, value in (status.get(name) or {}).items() if value is not None}
    block = dig(status, "deprecated.v1beta1.conditions", [])
    facts["deprecated"] = {one["type"] for one in block if one["status"] == "True"}
    return facts


def until_none(differences: Callable[[], object], what: str) -> None:
    until(lambda: not differences(), what, details=differences)


def until_core_reports(core: LiveCore, key: Key, type_: str, reason: str) -> None:
    """Waits until core reports a condition with this reason, and `cluster` would report the same as core."""

    def found() -> object:
        return condition(core, key, type_).get("reason") != reason or differences(core, key)

    until_none(found, f"core reports {reason} of {key}, and so would we")


def test_cluster_reports_of_a_cluster_what_core_reports(core: LiveCore) -> None:
    until_core_reports(core, MEMORY, "Available", "Available")


def test_availability_gates_of_the_class_count(core: LiveCore) -> None:
    of = Key(MEMORY.namespace, class_name(core.client.get(CLUSTER, MEMORY)) or "")
    for gates, reason in (([{"conditionType": "Example"}], "AvailableUnknown"), (None, "Available")):
        core.client.patch(CLUSTER_CLASS, of, {"spec": {"availabilityGates": gates}})
        core.client.patch(CLUSTER, MEMORY, {"metadata": {"annotations": {"example.com/expects": reason}}})
        until_core_reports(core, MEMORY, "Available", reason)


def broken_cluster(key: Key, prefix: str = "") -> list[Object]:
    """Returns a Cluster whose references lead to nothing, with a MachineDeployment and a Machine."""

    def missing(group: str, kind: str) -> Object:
        return {"apiGroup": f"{group}.cluster.x-k8s.io", "kind": kind, "name": "missing"}

    machine: Object = {
        "clusterName": key.name,
        "version": OLD,
        "bootstrap": {"configRef": missing("bootstrap", "KubeadmConfigTemplate")},
        "infrastructureRef": missing("infrastructure", "DevMachineTemplate"),
    }
    label = {"cluster.x-k8s.io/cluster-name": key.name}
    deployment = {
        "clusterName": key.name,
        "replicas": 2,
        "selector": {"matchLabels": label},
        "template": {"metadata": {"labels": label}, "spec": machine},
    }
    alone = {
        **machine,
        "bootstrap": {"dataSecretName": "missing"},
        "infrastructureRef": missing("infrastructure", "DevMachine"),
    }
    spec = {
        "infrastructureRef": missing("infrastructure", "DevCluster"),
        "controlPlaneRef": missing("controlplane", "KubeadmControlPlane"),
    }
    metadata: Object = {"labels": label, "finalizers": ["example.com/kept"]}
    return [
        manifest(CLUSTER, key.name, key.namespace, spec=spec),
        manifest(MACHINE_DEPLOYMENT, f"{prefix}md", key.namespace, metadata={"labels": label}, spec=deployment),
        manifest(MACHINE, f"{prefix}alone", key.namespace, metadata=metadata, spec=alone),
    ]


def test_cluster_reports_of_a_broken_cluster_what_core_reports(core: LiveCore) -> None:
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "broken")
    core.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.namespace}}, *broken_cluster(key))
    until_core_reports(core, key, "WorkerMachinesReady", "NotReady")
    core.client.delete(CLUSTER, key)
    until_core_reports(core, key, "Deleting", "WaitingForWorkersDeletion")
    core.client.patch(MACHINE, Key(key.namespace, "alone"), {"metadata": {"finalizers": []}})
    until(lambda: core.client.find(CLUSTER, key) is None, "the Cluster's end")


def moving_cluster(key: Key) -> list[Object]:
    """Returns a Cluster whose control plane is missing, and a MachineDeployment, whose Machines wait for that for ever.

    The infrastructure can be taken from two templates: a change of the reference is a rollout.
    """
    of_kind = {obj["kind"]: obj for obj in in_memory_cluster(key, OLD)[0]}
    machine, bootstrap = of_kind["DevMachineTemplate"], of_kind["KubeadmConfigTemplate"]
    templates = [
        {**obj, "metadata": {"name": name, "namespace": key.namespace}}
        for obj, name in ((machine, "one"), (machine, "two"), (bootstrap, "one"))
    ]
    found, deployment, _ = broken_cluster(key)
    spec = deployment["spec"]["template"]["spec"]
    for reference in (spec["bootstrap"]["configRef"], spec["infrastructureRef"]):
        reference["name"] = "one"
    return [found, *templates, deployment]


def test_cluster_reports_of_machines_that_change_what_core_reports(core: LiveCore) -> None:
    """Scaling up, rolling out, remediating and scaling down; each stays as it is until the test goes on."""
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "moving")
    workers = Key(key.namespace, "md")

    def machines() -> list[Object]:
        return list(core.client.list(MACHINE, key.namespace))

    def end_machines() -> None:
        """Takes docker's place: its manager needs the missing DevCluster, and adds its finalizer until the deletion."""
        for resource, ours in ((MACHINE, "example.com/kept"), (DEV_MACHINE, DEV_MACHINE_FINALIZER)):
            for each in core.client.list(resource, key.namespace):
                before = dig(each, "metadata.finalizers", [])
                if deleting(each) and ours in before:
                    with suppress(NotFound):
                        left = {"finalizers": [name for name in before if name != ours]}
                        core.client.patch(resource, key_of(each), {"metadata": left})

    core.apply(manifest(NAMESPACE, key.namespace), *moving_cluster(key))
    until_core_reports(core, key, "ScalingUp", "ScalingUp")  # core checks the control plane before it creates Machines
    unchecked = {"machineset.cluster.x-k8s.io/skip-preflight-checks": "All"}
    core.client.patch(MACHINE_DEPLOYMENT, workers, {"metadata": {"annotations": unchecked}})
    until_core_reports(core, key, "ScalingUp", "NotScalingUp")

    second = {"spec": {"template": {"spec": {"infrastructureRef": {"name": "two"}}}}}
    core.client.patch(MACHINE_DEPLOYMENT, workers, second)
    until_core_reports(core, key, "RollingOut", "RollingOut")
    until(lambda: len(machines()) == 3, "the first Machine of the rollout", details=machines)

    label = {"matchLabels": {CLUSTER_NAME_LABEL: key.name}}
    core.apply(manifest(HEALTH_CHECK, "all", key.namespace, spec={"clusterName": key.name, "selector": label}))
    kept: Object = {"finalizers": ["machine.cluster.x-k8s.io", "example.com/kept"]}
    for each in machines():
        core.client.patch(MACHINE, key_of(each), {"metadata": kept})
    to_remediate = {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}
    core.client.patch(MACHINE, key_of(machines()[0]), {"metadata": to_remediate})
    until_core_reports(core, key, "Remediating", "Remediating")

    core.client.patch(MACHINE_DEPLOYMENT, workers, {"spec": {"replicas": 0}})
    until_core_reports(core, key, "ScalingDown", "ScalingDown")
    core.client.delete(CLUSTER, key)
    until(lambda: core.client.find(CLUSTER, key) is None, "the Cluster's end", between=end_machines, details=machines)


# -- our Cluster controller in place of core: the last tests, since they end its manager ---------------------------


def test_cluster_reports_anew_what_core_has_reported(core: LiveCore) -> None:
    """The function gets the same objects, and writes the status that core has written, after that is emptied."""
    key = Key(f"test-{uuid.uuid4().hex[:8]}", "broken")
    gone = Key(key.namespace, "gone")
    core.apply(manifest(NAMESPACE, key.namespace), *broken_cluster(key), *broken_cluster(gone, "gone-"))
    core.client.delete(CLUSTER, gone)
    until_core_reports(core, MEMORY, "Available", "Available")
    until(lambda: core.client.find(MACHINE_DEPLOYMENT, Key(key.namespace, "gone-md")) is None, "its deletion")
    # The last changes of what core reports: a Machine that has not said so counts as not up to date after 10 s.
    until_core_reports(core, gone, "WorkerMachinesUpToDate", "UpToDateUnknown")
    core.client.patch(CLUSTER, key, {"metadata": {"annotations": {"example.com/again": "after 10 s"}}})
    until_core_reports(core, key, "WorkerMachinesUpToDate", "UpToDateUnknown")
    for each in (MEMORY, key, gone):
        core.client.patch(CLUSTER, each, {"metadata": {"annotations": {CORE_ANNOTATION: "ignore"}}})
    by_core = {each: core.client.get(CLUSTER, each)["status"] for each in (MEMORY, key, gone)}
    manager = Key("capi-system", "capi-controller-manager")
    core.client.patch(DEPLOYMENT, manager, {"spec": {"replicas": 0}})
    until(lambda: manager.name not in core.managers.pids, "core has ended")
    # The run leaves this function to the core, so its server has no such function.
    deliver = InProcessDelivery(catalog.handler, Clients(core.client))
    answers: list[Answer] = []

    def reported_anew(each: Key) -> dict[str, tuple[object, object]]:
        """Returns what is reported otherwise: (core's, ours)."""
        event = change_event(core.client.get(CLUSTER, each), "update", source="/test")
        answers.append(deliver("cluster", event))
        theirs, ours = (every_field(status) for status in (by_core[each], core.client.get(CLUSTER, each)["status"]))
        names = theirs.keys() | ours.keys()
        return {name: (theirs.get(name), ours.get(name)) for name in names if theirs.get(name) != ours.get(name)}

    for each, status in by_core.items():
        kept = [one for one in status["conditions"] if one["type"] == "TopologyReconciled"]
        emptied = {**dict.fromkeys(status), "conditions": kept}
        core.client.patch(CLUSTER, each, {"status": emptied}, subresource="status")
        # Core leaves the deprecated conditions out while the objects are missing that they are about.
        expected = set() if each == MEMORY else {f"deprecated {type_}" for type_ in DEPRECATED}

        def reached(each: Key = each, expected: set[str] = expected) -> bool:
            return reported_anew(each).keys() == expected

        def details(each: Key = each) -> object:
            return answers[-1], reported_anew(each)

        until(reached, f"{each} is as core has left it", details=details)


def every_field(status: Object) -> dict[str, object]:
    """Returns all that a status says, without times, in the order of the conditions."""
    conditions = {one["type"]: {**one, "lastTransitionTime": ""} for one in status["conditions"]}
    older = {
        one["type"]: {**one, "lastTransitionTime": ""}
        for one in dig(status, "deprecated.v1beta1.conditions", [])
        if one["type"] != "TopologyReconciled"  # which is the topology controller's
    }
    others = {name: value for name, value in status.items() if value and name not in ("conditions", "deprecated")}
    return {**conditions, "order": list(conditions), **others, **{f"deprecated {name}": older[name] for name in older}}
