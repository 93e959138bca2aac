"""Defects of earlier addon managers that must not occur here. The docstrings say what used to happen."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from functions.cluster_hooks.function import call
from functions.cluster_hooks.protocol import HANDLERS
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, SERVICE
from shared.clients import Clients
from shared.event import change_event, own_event
from shared.kube import Client, Key, Object, Resource, dig
from shared.kube.crds import CRD, await_established
from shared.releases.stages import BEFORE_CLUSTER_UPGRADE
from shared.storage import ObjectStore
from tests.support.api_proxy import Proxy, answering
from tests.support.releases import STACK, archive, config_map, write_release, write_stages
from tests.support.until import until
from tests.support.world import World


def upgrade(world: World, *releases: list[Object]) -> None:
    """Rolls out the releases one after the other."""
    world.secret()
    for number, objects in enumerate(releases, 1):
        world.cluster(write_release(world.releases, f"v{number}", objects))
        world.settle()


def entries(world: World) -> dict[tuple[str, str], Object]:
    return {(entry["kind"], entry["name"]): entry for entry in dig(world.addon(), "status.resources", [])}


def service(world: World, name: str) -> Object:
    metadata = {"name": name, "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def test_upgrade_changes_objects_of_both_releases(world: World) -> None:
    """Upgrades created and deleted objects, but never updated objects of both releases."""
    names = [f"m{number}" for number in range(5)]
    upgrade(world, [world.map(name) for name in names], [world.map(name, "2") for name in names])
    assert {world.read(name)["data"]["k"] for name in names} == {"2"}
    assert dig(world.addon(), "status.ready") is True


def test_objects_of_different_kinds_can_share_a_name(world: World) -> None:
    """The two objects counted as one: the second was not applied, or was deleted with the first."""
    elsewhere = f"{world.namespace}-2"
    both = [world.map("same"), service(world, "same"), config_map("same", "other", elsewhere)]
    upgrade(world, both)
    assert world.read("same")
    assert world.client.get(SERVICE, Key(world.namespace, "same"))
    assert world.client.get(CONFIG_MAP, Key(elsewhere, "same"))["data"] == {"k": "other"}
    upgrade(world, both, both[:1])
    assert world.read("same")
    assert world.client.find(SERVICE, Key(world.namespace, "same")) is None
    assert world.client.find(CONFIG_MAP, Key(elsewhere, "same")) is None


@pytest.mark.parametrize("status", [403, 500, 503])
def test_failed_prune_is_retried(world: World, proxy: Proxy, status: int) -> None:
    """A failed deletion was not retried, and the object stayed forever."""
    world.secret(proxy.kubeconfig)
    world.cluster(write_release(world.releases, "v1", [world.map("stays"), world.map("goes")]))
    world.settle()
    proxy.fail(answering(status, {"kind": "Status", "message": "not now"}), lambda request: request.method == "DELETE")
    world.cluster(write_release(world.releases, "v2", [world.map("stays")]))
    for _ in range(2):
        assert world.settle().retry_after is not None
        assert world.names() == ["goes", "stays"]
        assert "not now" in entries(world)["ConfigMap", "goes"]["error"]
        assert dig(world.addon(), "status.ready") is False
    proxy.heal()
    world.settle()
    assert world.names() == ["stays"]
    assert set(entries(world)) == {("ConfigMap", "stays")}
    assert dig(world.addon(), "status.ready") is True


def test_failed_prune_is_retried_with_the_next_release(world: World, proxy: Proxy) -> None:
    """A failed deletion was not retried after the next upgrade either."""
    world.secret(proxy.kubeconfig)
    world.cluster(write_release(world.releases, "v1", [world.map("stays"), world.map("goes")]))
    world.settle()
    proxy.fail(answering(500, {"kind": "Status", "message": "not now"}), lambda request: request.method == "DELETE")
    world.cluster(write_release(world.releases, "v2", [world.map("stays")]))
    world.settle()
    proxy.heal()
    world.cluster(write_release(world.releases, "v3", [world.map("stays"), world.map("comes")]))
    world.settle()
    assert world.names() == ["comes", "stays"]
    assert set(entries(world)) == {("ConfigMap", "comes"), ("ConfigMap", "stays")}


def test_kind_that_is_served_later_is_applied(world: World) -> None:
    """An object of a kind that was not served yet was neither applied nor recorded."""
    group = f"{world.namespace}.example.com"
    gadgets = Resource(group, "v1", "Gadget", "gadgets")
    gadget: Object = {
        "apiVersion": gadgets.api_version,
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": world.namespace},
    }
    upgrade(world, [world.map("a"), gadget])
    assert dig(world.addon(), "status.ready") is False
    assert f"Gadget ({group}/v1)" in world.condition("HelmChartApplied")["message"]
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd: Object = {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    world.client.create(CRD, crd)
    await_established(world.client, f"gadgets.{group}")
    world.settle()
    assert world.client.get(gadgets, Key(world.namespace, "g"))
    assert set(entries(world)) == {("ConfigMap", "a"), ("Gadget", "g")}
    assert dig(world.addon(), "status.ready") is True


def test_failed_object_is_retried_until_it_succeeds(world: World) -> None:
    """A failed object was recorded as applied, and not retried."""
    bad = {**world.map("bad"), "data": {"k": 1}}
    upgrade(world, [world.map("good"), bad])
    for _ in range(3):
        assert world.settle().retry_after is not None
        assert entries(world)["ConfigMap", "bad"]["status"] == "not-synced"
        assert entries(world)["ConfigMap", "bad"]["error"]
        assert entries(world)["ConfigMap", "good"]["status"] == "synced"
        assert world.condition("Ready")["status"] == "False"
    world.cluster(write_release(world.releases, "v2", [world.map("good"), world.map("bad")]))
    world.settle()
    assert {entry["status"] for entry in entries(world).values()} == {"synced"}
    assert dig(world.addon(), "status.ready") is True


def test_each_object_is_applied_in_its_own_namespace(world: World) -> None:
    """All objects were applied to kube-system, whatever their namespace."""
    unnamed = config_map(f"of-{world.namespace}")
    del unnamed["metadata"]["namespace"]
    role: Object = {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": f"of-{world.namespace}", "namespace": "stray"},
        "rules": [],
    }
    objects = [world.map("a"), config_map("b", namespace=f"{world.namespace}-other"), unnamed, role]
    upgrade(world, objects, objects)
    assert world.read("a")
    assert world.client.get(CONFIG_MAP, Key(f"{world.namespace}-other", "b"))
    assert world.client.get(CONFIG_MAP, Key("kube-system", f"of-{world.namespace}"))
    assert world.client.get(CLUSTER_ROLE, Key("", f"of-{world.namespace}"))
    upgrade(world, objects, objects, objects[:1])
    assert world.client.find(CONFIG_MAP, Key("kube-system", f"of-{world.namespace}")) is None
    assert world.client.find(CLUSTER_ROLE, Key("", f"of-{world.namespace}")) is None


BROKEN: dict[str, dict[str, Any]] = {
    "a template that does not parse": {"templates": {"x.yaml": "{{ nope }}"}},
    "a template that fails": {"templates": {"x.yaml": '{{ fail "on purpose" }}'}},
    "values that do not parse": {"templates": {"x.yaml": ""}, "values": "{{ .Cluster.metadata.name"},
    "an archive that is empty": {"addon_chart": b""},
    "an archive without a chart": {"addon_chart": archive({"addons/templates/x.yaml": ""})},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_chart_that_fails_is_not_reported_as_applied(world: World, broken: str) -> None:
    """A chart that was missing or failed to render was skipped, and the addons were reported as applied."""
    upgrade(world, [world.map("a"), world.map("b")])
    world.cluster(write_release(world.releases, "v2", **BROKEN[broken]))
    assert world.settle().retry_after is not None
    assert dig(world.addon(), "status.ready") is False
    assert world.condition("Ready")["status"] == "False"
    assert dig(world.addon(), "spec.clusterStack") == f"{STACK}-v1"
    assert world.names() == ["a", "b"]


def test_failed_fetches_do_not_block_other_releases(
    clients: Clients, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed download kept its lock, and every later download waited forever."""
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    monkeypatch.setattr("functions.release_assets.function._is_referenced", lambda *_: True)
    good = [write_release(tmp_path, f"v{number}", [config_map(f"m{number}")]) for number in range(1, 5)]
    bad = [f"{STACK}-v{number}" for number in range(11, 15)]
    fetch = catalog.handler("release_assets")

    def request(tag: str) -> int:
        """Delivers the request as a broker does: again after a 503, while other fetches use all threads."""
        event = own_event("release.wanted", source="/test", subject=tag, data={"release": tag})
        statuses = (fetch(clients, event).status for _ in count())
        return next(status for status in statuses if status != 503)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(request, tag) for pair in zip(bad, good, strict=True) for tag in pair]:
            assert future.result(timeout=60) in (200, 204)
    for tag in good:
        assert clients.releases.load(tag) is not None
    for tag in bad:
        failure = clients.releases.last_failure(tag)
        assert failure is not None
        assert tag in failure[0]


def test_upgrade_does_not_need_the_former_release(world: World) -> None:
    """An upgrade fetched the former release too, and crashed if that failed."""
    upgrade(world, [world.map("a"), world.map("b")])
    store = world.clients.releases
    store.delete(f"{STACK}-v1")
    (world.releases / f"{STACK}-v1").rename(world.releases / "gone")
    world.cluster(write_release(world.releases, "v2", [world.map("b", "2")]))
    world.settle()
    assert world.names() == ["b"]
    assert dig(world.addon(), "status.ready") is True


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


CHART = (member("addons/Chart.yaml"), b"apiVersion: v2\nname: addons\nversion: 1.0.0\n")
HOSTILE: dict[str, Callable[[], bytes]] = {
    "a way out": lambda: tar(CHART, (member("addons/../../../../tmp/owned-by-a-chart"), b"x")),
    "an absolute path": lambda: tar(CHART, (member("/tmp/owned-by-a-chart"), b"x")),
    "a link": lambda: tar(
        CHART, (member("addons/templates/x.yaml", type=tarfile.SYMTYPE, linkname="/etc/hostname"), b"")
    ),
    "a bomb": lambda: tar(CHART, (member("addons/templates/x.yaml"), bytes(300_000_000))),
    "very many files": lambda: tar(CHART, *((member(f"addons/files/{number}"), b"") for number in range(50_000))),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_archive_is_rejected(world: World, hostile: str) -> None:
    """Archives were unpacked to any path and at any size."""
    world.secret()
    world.cluster(write_release(world.releases, "v1", addon_chart=HOSTILE[hostile]()))
    assert world.settle().retry_after is not None
    assert dig(world.addon(), "status.ready") is False
    assert f"{STACK}-cluster-addon-v1.tgz" in world.condition("Ready")["message"]
    assert world.names() == []
    assert not Path("/tmp/owned-by-a-chart").exists()


def test_concurrent_clusters_do_not_mix_their_charts(management: Client, world: World, kubeconfig: Path) -> None:
    """Charts of all clusters were unpacked into one folder and mixed up."""
    worlds = []
    for number in range(1, 7):
        name = f"{world.namespace}-{number}"
        management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        one = World(management, name, kubeconfig.read_bytes(), world.clients, world.releases)
        one.cluster(write_release(world.releases, f"v{number}", [one.map("m", str(number))]))
        one.secret()
        worlds.append(one)
    with ThreadPoolExecutor(len(worlds)) as pool:  # a fetch is delivered again while others use all threads
        list(pool.map(lambda one: until(lambda: one.settle().retry_after is None, one.namespace), worlds))
    for number, one in enumerate(worlds, 1):
        assert dig(one.addon(), "status.ready") is True
        assert one.names() == ["m"]
        assert one.read("m")["data"] == {"k": str(number)}


@pytest.mark.parametrize("topology", [None, {}, {"classRef": None}, {"classRef": {}}, {"class": ""}])
def test_cluster_without_a_class_gets_no_addons(world: World, topology: Object | None) -> None:
    """A Cluster without topology crashed the manager."""
    cluster = world.cluster()
    for spec in ({"topology": topology}, {}):
        event = change_event({**cluster, "spec": spec}, "update", source="/test")
        for name in ("cluster", "kubeconfig", "addon_create", "addon_apply"):
            assert world.call(name, event).status in (202, 204)
    assert list(world.client.list(CLUSTER_ADDON, world.namespace)) == []


def paused(how: str, value: bool | None) -> Object:
    if how == "field":
        return {"spec": {"paused": value}}
    return {"metadata": {"annotations": {"cluster.x-k8s.io/paused": value and "true"}}}


@pytest.mark.parametrize("how", ["field", "annotation"])
def test_paused_cluster_is_not_changed(world: World, proxy: Proxy, how: str) -> None:
    """Paused Clusters were reconciled."""
    world.secret(proxy.kubeconfig)
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map("b")]))
    key = Key(world.namespace, "demo")
    world.client.patch(CLUSTER, key, paused(how, True))
    before = len(proxy.seen)
    assert world.settle().status == 204
    assert len(proxy.seen) == before
    world.client.patch(CLUSTER, key, paused(how, None))
    world.settle()
    assert world.names() == ["b"]


def test_class_in_another_namespace_is_found(world: World) -> None:
    """Clusters with a class of another namespace got no addons."""
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(topology={"classRef": {"name": name, "namespace": "default"}})
    world.secret()
    world.settle()
    assert world.names() == ["a"]
    assert dig(world.addon(), "status.ready") is True


SCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
[PATH] = [handler.path for handler in HANDLERS if handler.hook == BEFORE_CLUSTER_UPGRADE]
STAGES = """
  AfterControlPlaneInitialized: &stages
    - {name: cni}
    - {name: csi}
  BeforeClusterUpgrade: *stages
"""


def ask(world: World) -> int:
    """Calls the hook before an upgrade as Cluster API does; returns the seconds until the next call, 0 to continue."""
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    cluster["spec"]["topology"]["version"] = "v1.36.3"
    called = call(world.clients, PATH, json.dumps({"cluster": cluster}).encode())
    assert called.code == 200, called.answer.message
    return int(called.response["retryAfterSeconds"])


def go(world: World, class_name: str) -> float | None:
    world.secret()
    world.cluster(class_name)
    return world.settle().retry_after


@pytest.mark.parametrize("addon_version", ["v1", "v2"])
@pytest.mark.parametrize("asked", ["before", "after"])
def test_upgrade_without_stages_is_not_blocked_by_a_hook(world: World, asked: str, addon_version: str) -> None:
    """An upgrade with unchanged addons, or with addons applied before the hook's call, was blocked forever."""
    go(world, write_release(world.releases, "v1", [world.map("a")], addon_version="v1"))
    world.cluster(write_release(world.releases, "v2", [world.map("a")], addon_version=addon_version))
    if asked == "before":
        assert ask(world) == 10
    world.settle()
    assert ask(world) == 0
    assert dig(world.addon(), "status.ready") is True
    assert dig(world.addon(), "spec.hook") == ""


def test_incomplete_upgrade_is_not_recorded_as_applied(world: World) -> None:
    """The version was recorded before the addons were applied, so the next reconcile took them for applied."""
    go(world, write_stages(world.releases, "v1", STAGES, {"cni": [world.map("net")], "csi": [world.map("store")]}))
    bad = {**world.map("bad"), "data": {"k": 1}}
    charts = {"cni": [world.map("net", "2")], "csi": [world.map("store", "2"), bad]}
    name = write_stages(world.releases, "v2", STAGES, charts)
    world.cluster(name)
    for _ in range(3):
        assert world.settle().retry_after == 20.0
        addon = world.addon()
        assert (addon["spec"]["clusterStack"], addon["spec"]["version"]) == ("test-stack-1-36-v1", "v1")
        assert addon["status"]["ready"] is False
        assert ask(world) == 10
    world.clients.releases.delete(name)
    assert go(world, write_stages(world.releases, "v2", STAGES, {**charts, "csi": [world.map("store", "2")]})) is None
    assert world.addon()["spec"]["version"] == "v2"
    assert ask(world) == 0


def scaler(world: World, version: str, replicas: int) -> Object:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": replicas,
        },
    }


def test_object_in_another_api_version_is_the_same_object(world: World) -> None:
    """The object was applied in its new version, and then deleted in its former one."""
    key = Key(world.namespace, "web")
    go(world, write_stages(world.releases, "v1", STAGES, {"cni": [scaler(world, "v1", 2)], "csi": [world.map("a")]}))
    uid = world.client.get(SCALER, key)["metadata"]["uid"]
    go(world, write_stages(world.releases, "v2", STAGES, {"cni": [scaler(world, "v2", 3)], "csi": [world.map("a")]}))
    live = world.client.get(SCALER, key)
    assert (live["metadata"]["uid"], live["spec"]["maxReplicas"]) == (uid, 3)
    [entry] = [entry for entry in dig(world.addon(), "status.resources") if entry["name"] == "web"]
    assert entry["version"] == "v2"


def test_stage_that_deletes_renders_its_chart_with_values(world: World) -> None:
    """The chart was rendered without values, and objects with names from values were not deleted."""
    config = """
  AfterControlPlaneInitialized: [{name: old}]
  BeforeClusterUpgrade: [{name: old, action: delete}]
"""
    text = (
        f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: "x-{{{{ .Values.k }}}}", namespace: {world.namespace}}}\n'
    )
    overwrite, templates = {"old": "k: {{ .Cluster.metadata.name }}"}, {"old": {"all.yaml": text}}
    for version, names in (("v1", ["x-demo"]), ("v2", [])):
        go(world, write_stages(world.releases, version, config, {}, overwrite=overwrite, templates=templates))
        assert world.names() == names


def test_each_upgrade_starts_from_the_inventory(world: World) -> None:
    """The second upgrade compared with outdated data, and deleted by the new stages."""
    first = {"cni": [world.map("net"), world.map("one")], "csi": [world.map("store")]}
    go(world, write_stages(world.releases, "v1", STAGES, first))
    go(world, write_stages(world.releases, "v2", STAGES, {"cni": [world.map("net"), world.map("two")], "csi": []}))
    assert world.names() == ["net", "two"]
    assert world.addon()["metadata"]["annotations"]["ClusterAddonStage"] == "upgraded"
    config = "\n  BeforeClusterUpgrade: [{name: csi}]\n"
    assert go(world, write_stages(world.releases, "v3", config, {"csi": [world.map("store", "3")]})) is None
    assert world.names() == ["store"]
    assert world.read("store")["data"]["k"] == "3"


@pytest.mark.parametrize("staged", [True, False])
def test_faulty_release_is_replaced_by_a_fixed_one(world: World, *, staged: bool) -> None:
    """The hook of the faulty release stayed set, and blocked the fixed one."""

    def release(version: str, *, faulty: bool = False) -> str:
        broken = {"broken.yaml": '{{ fail "broken" }}'} if faulty else {}
        if not staged:
            return write_release(world.releases, version, [world.map("a", version)], templates=broken or None)
        charts = {"cni": [world.map("a", version)], "csi": []}
        return write_stages(world.releases, version, STAGES, charts, templates={"csi": broken})

    go(world, release("v1"))
    world.cluster(release("v2", faulty=True))
    assert ask(world) == 10
    assert world.settle().retry_after == 60.0
    assert ask(world) == 10
    world.cluster(release("v3"))
    assert ask(world) == 10
    assert world.settle().retry_after is None
    assert ask(world) == 0
    addon = world.addon()
    assert (addon["spec"]["clusterStack"], addon["spec"]["hook"]) == ("test-stack-1-36-v3", "")
    assert addon["status"]["ready"] is True
    assert world.read("a")["data"]["k"] == "v3"
