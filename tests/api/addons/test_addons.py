"""Addons on a real API server, which is both management and workload cluster: one namespace has the Cluster, and the
charts' objects are in other namespaces.
"""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, DEPLOYMENT, EVENT, SECRET
from shared.event import Event, change_event, own_event
from shared.kube import ApiError, Key, Object, Resource, dig, key_of
from shared.kube.crds import CRD
from shared.releases.source_resolution import source_of_stack
from shared.runtime import Answer
from tests.support.api_proxy import Proxy
from tests.support.demo_cluster import ADDON
from tests.support.objects import widgets_crd
from tests.support.releases import STACK, archive, config_map, write_release
from tests.support.until import until
from tests.support.world import World


def test_first_apply_creates_objects_and_makes_the_addon_ready(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.map("b")]))
    world.secret()
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (204, None)
    addon = world.addon()
    assert dig(addon, "status.ready") is True
    assert addon["spec"]["clusterStack"] == "test-stack-1-36-v1"
    assert addon["spec"]["version"] == "v1"
    assert world.names() == ["a", "b"]
    assert {c["type"]: c["status"] for c in addon["status"]["conditions"]} == {
        "Ready": "True",
        "ClusterReady": "True",
        "ClusterStackReleaseDownloaded": "True",
        "HelmChartApplied": "True",
        "ObjectsReady": "True",
    }
    uids = {entry["name"]: entry["uid"] for entry in addon["status"]["resources"]}
    assert uids == {name: world.read(name)["metadata"]["uid"] for name in ("a", "b")}


def test_addon_is_created_once_a_paused_cluster_is_resumed(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.call("addon_create", change_event(world.cluster(name, paused=True), "add", source="/test"))
    assert world.client.find(CLUSTER_ADDON, world.addon_key) is None
    world.call("addon_create", change_event(world.cluster(name), "update", source="/test"))
    assert world.addon()


def test_upgrade_updates_creates_and_prunes_objects(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.map("b"), world.map("c")]))
    world.secret()
    world.settle()
    before = world.read("a")
    world.cluster(write_release(world.releases, "v2", [world.map("a"), world.map("b", "2"), world.map("d")]))
    world.settle()
    assert world.names() == ["a", "b", "d"]
    assert world.read("b")["data"] == {"k": "2"}
    assert world.read("a")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert world.addon()["metadata"]["annotations"]["ClusterAddonStage"] == "upgraded"


def test_unchanged_release_causes_no_write(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    before = (world.addon()["metadata"]["resourceVersion"], world.read("a")["metadata"]["resourceVersion"])
    requests = world.client.requests
    event = change_event(world.addon(), "update", source="/test")
    requests = world.client.requests
    assert world.call("addon_apply", event).message == "already reconciled"
    assert world.client.requests == requests
    world.call("addon_apply", Event(**{**event.__dict__, "resync": True}))
    assert (world.addon()["metadata"]["resourceVersion"], world.read("a")["metadata"]["resourceVersion"]) == before


def test_new_release_with_the_same_addons_causes_no_rollout(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    before = world.read("a")["metadata"]
    world.cluster(write_release(world.releases, "v2", [world.map("a")], addon_version="v1"))
    world.settle()
    assert world.addon()["spec"]["clusterStack"] == "test-stack-1-36-v2"
    assert dig(world.addon(), "status.ready") is True
    assert world.read("a")["metadata"] == before


def test_missing_release_assets_are_waited_for(world: World) -> None:
    world.cluster("test-stack-1-36-v1")
    world.secret()
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    answer = world.call("addon_apply", change_event(cluster, "add", source="/test"))
    assert (answer.status, answer.retry_after) == (200, 10.0)
    assert answer.reply is not None
    assert answer.reply.type == "dev.capi-functions.release.wanted"
    assert world.condition("ClusterStackReleaseDownloaded")["reason"] == "ReleaseAssetsNotDownloadedYet"
    # The fetch fails, since the release does not exist; the addon reports it, and does not request it again at once.
    fetched = world.call("release_assets", answer.reply)
    assert fetched.reply is not None
    again = world.call("addon_apply", fetched.reply)
    assert (again.status, again.retry_after, again.reply) == (202, 10.0, None)
    found = world.condition("ClusterStackReleaseDownloaded")
    assert found["reason"] == "IssueWithReleaseAssets"
    assert "test-stack-1-36-v1" in found["message"]


def test_release_is_requested_when_the_addon_is_created(world: World) -> None:
    cluster = world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    created = world.call("addon_create", change_event(cluster, "add", source="/test"))
    assert created.reply is not None
    fetched = world.call("release_assets", created.reply)
    assert (fetched.status, fetched.reply) == (204, None)  # no object waits for it
    applied = world.call("addon_apply", change_event(world.addon(), "add", source="/test"))
    assert (applied.status, applied.reply) == (204, None)
    assert world.names() == ["a"]


def test_concurrent_deliveries_apply_once(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a"), world.map("b")])
    cluster = world.cluster(name)
    world.secret()
    world.clients.releases.save(name, source_of_stack(world.clients, {}).source)
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    event = change_event(world.addon(), "add", source="/test")

    def deliver(_: int) -> Answer | None:
        answer = world.call("addon_apply", event)
        return None if answer.retry_after else answer  # on a busy machine the rollout is under way for a while

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: until(lambda: deliver(number)), range(8)))
    assert sorted(answer.message for answer in answers) == ["already reconciled"] * 7 + [
        f"{name}: 2 objects written, 0 pruned"
    ]


def test_rejected_object_is_reported_in_one_event(world: World) -> None:
    odd = world.map("odd")
    odd["metadata"]["labels"] = {"not a label": "x"}
    world.cluster(write_release(world.releases, "v1", [world.map("a"), odd]))
    world.secret()
    world.settle()
    message = world.condition("HelmChartApplied")["message"]
    assert message.startswith(f"{STACK}-v1: 1 of 2 objects failed: ConfigMap {world.namespace}/odd: ")
    assert message.count(f"{world.namespace}/odd") == 1
    assert "not a label" in message


def events_of(world: World) -> list[str]:
    found = world.client.list(EVENT, world.namespace)
    return [obj["reason"] for obj in found if dig(obj, "involvedObject.name") == ADDON]


def test_only_a_connection_that_is_lost_records_an_event(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    assert world.condition("ClusterReady")["reason"] == "ControlPlaneNotReady"
    world.secret()
    world.settle()
    assert events_of(world) == []
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    world.secret(DOWN)
    world.settle()
    assert events_of(world) == ["ControlPlaneNotReady"]


def test_missing_kubeconfig_is_waited_for(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (202, 10.0)
    found = world.condition("ClusterReady")
    assert (found["reason"], found["severity"]) == ("ControlPlaneNotReady", "Warning")
    assert "demo-kubeconfig" in found["message"]


EXEC = b"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {command: touch, args: [/tmp/owned], apiVersion: client.authentication.k8s.io/v1}}}]
"""
DOWN = EXEC.replace(
    b"exec: {command: touch, args: [/tmp/owned], apiVersion: client.authentication.k8s.io/v1}", b"token: t"
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", 'missing key "value"'),
        (b"\x00\xff garbage", "not valid YAML"),
        (b"- a list", "not a mapping"),
        (b"a: {b", "not valid YAML"),
        (b"kind: Config", "no context"),
        (EXEC, "runs a command"),
        (EXEC.replace(b"exec: {", b"tokenFile: /etc/passwd, x: {"), "reads a token file"),
        (DOWN, "does not answer"),
    ],
)
def test_invalid_kubeconfig_is_reported(world: World, content: bytes, words: str) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret(content)
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (202, 10.0)
    found = world.condition("ClusterReady")
    assert found["reason"] == "ControlPlaneNotReady"
    assert words in found["message"]
    assert not Path("/tmp/owned").exists()


def test_kubeconfig_with_a_wrong_ca_is_reported(world: World, tmp_path: Path) -> None:
    from shared.certificates import CertificateAuthority

    other = base64.b64encode(CertificateAuthority.generate("other").cert_pem).decode()
    lines = world.kubeconfig.decode().splitlines()
    wrong = [f"{line.split(':')[0]}: {other}" if "certificate-authority-data" in line else line for line in lines]
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret("\n".join(wrong).encode())
    assert world.settle().status == 202
    assert "certificate verify failed" in world.condition("ClusterReady")["message"]


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"templates": {"x.yaml": "a: {{ .Values.missing.deep }}"}}, "x.yaml"),
        ({"templates": {"x.yaml": "{{ nope }}"}}, "nope"),
        ({"templates": {"x.yaml": "kind: [unclosed"}}, "x.yaml"),
        ({"templates": {"x.yaml": "kind: ConfigMap"}}, "x.yaml"),
        ({"values": "{{ .Cluster.nothing.here.fail }"}, "cluster-addon-values.yaml"),
        ({"values": "- a list"}, "cluster-addon-values.yaml"),
        ({"values": '{{ fail "on purpose" }}'}, "on purpose"),
        ({"addon_chart": b"no archive"}, "test-stack-1-36-cluster-addon-v1.tgz"),
    ],
)
def test_release_that_cannot_be_rendered_is_reported(world: World, release: dict[str, Any], words: str) -> None:
    world.cluster(write_release(world.releases, "v1", **release))
    world.secret()
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (202, 60.0)
    found = world.condition("HelmChartTemplated")
    assert found["severity"] == "Error"
    assert words in found["message"]
    assert world.names() == []


def test_upgrade_that_cannot_be_rendered_prunes_nothing(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.map("b")]))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", templates={"x.yaml": "{{ nope }}"}))
    world.settle()
    assert world.names() == ["a", "b"]
    assert world.addon()["spec"]["clusterStack"] == "test-stack-1-36-v1"
    world.cluster(write_release(world.releases, "v3", [world.map("a")]))
    world.settle()
    assert world.names() == ["a"]
    assert dig(world.addon(), "status.ready") is True


@pytest.mark.parametrize("stack", ["test-other-1-36", "test-stack-1-37"])
def test_addon_versions_are_compared_within_one_stack_only(world: World, stack: str) -> None:
    """Both stacks have addons of version v1, and both releases are stored."""
    first = write_release(world.releases, "v1", [world.map("old")])
    second = write_release(world.releases, "v1", [world.map("new")], stack=stack)
    for tag in (first, second):
        world.call("release_assets", own_event("release.wanted", source="/test", subject=tag, data={"release": tag}))
    world.secret()
    for class_name, names in ((first, ["old"]), (second, ["new"])):
        world.cluster(class_name)
        world.settle()
        assert dig(world.addon(), "spec.clusterStack") == class_name
        assert world.names() == names


def test_invalid_annotation_is_reported_for_applied_addons_too(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.secret()
    world.cluster(name)
    world.settle()
    world.cluster(name, policy={"conflicts": "fial"})
    world.settle()
    found = world.condition("ClusterAddonConfigValidated")
    assert (found["status"], found["reason"]) == ("False", "InvalidAnnotation")
    assert "conflicts is 'fial'" in found["message"]
    world.cluster(name)
    world.settle()
    assert dig(world.addon(), "status.ready") is True


def test_kubeconfig_damaged_after_the_apply_is_reported(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    world.secret(b"no kubeconfig")
    secret = world.client.get(SECRET, Key(world.namespace, "demo-kubeconfig"))
    world.call("addon_apply", change_event(secret, "update", source="/test", reference=True))
    found = world.condition("ClusterReady")
    assert (found["status"], found["reason"]) == ("False", "ControlPlaneNotReady")
    assert "demo-kubeconfig" in found["message"]
    world.secret()
    world.call("addon_apply", change_event(secret, "update", source="/test", reference=True))
    assert dig(world.addon(), "status.ready") is True


def test_failed_object_does_not_stop_the_others(world: World) -> None:
    bad = {**world.map("bad"), "data": {"k": 1}}
    world.cluster(write_release(world.releases, "v1", [world.map("old")]))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map("a"), bad, world.map("z")]))
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (202, 20.0)
    found = world.condition("HelmChartApplied")
    assert found["reason"] == "FailedToApplyObjects"
    assert f"ConfigMap {world.namespace}/bad" in found["message"]
    # The other objects are applied, nothing was pruned, and the entry to prune is not synced either.
    assert world.names() == ["a", "old", "z"]
    states = {entry["name"]: entry["status"] for entry in world.addon()["status"]["resources"]}
    assert states == {"a": "synced", "bad": "not-synced", "z": "synced", "old": "not-synced"}
    # The next reconcile applies only what failed.
    before = world.read("a")["metadata"]["managedFields"]
    world.settle()
    assert world.read("a")["metadata"]["managedFields"] == before


def test_only_objects_with_our_label_and_uid_are_pruned(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map(name) for name in ("keep", "mine", "replaced", "x")]))
    world.secret()
    world.settle()
    keep = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}
    world.client.patch(CONFIG_MAP, Key(world.namespace, "keep"), keep)
    taken = {"metadata": {"labels": {"clusterstack.x-k8s.io/instance": None}}}
    world.client.patch(CONFIG_MAP, Key(world.namespace, "mine"), taken)
    world.client.delete(CONFIG_MAP, Key(world.namespace, "replaced"))
    replaced = world.map("replaced")
    replaced["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
    world.client.create(CONFIG_MAP, replaced)
    world.cluster(write_release(world.releases, "v2", [world.map("new")]))
    world.settle()
    assert world.names() == ["keep", "mine", "new", "replaced"]
    assert dig(world.addon(), "status.ready") is True


def test_crd_and_its_custom_resource_in_one_chart_are_applied(world: World) -> None:
    group = f"{world.namespace}.example.com"
    metadata = {"name": "w", "namespace": f"{world.namespace}-own"}
    widget: Object = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata}
    own: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": metadata["namespace"]}}
    world.cluster(write_release(world.releases, "v1", [widget, widgets_crd(group), own]))
    world.secret()
    assert world.settle().retry_after is None
    widgets = Resource(group, "v1", "Widget", "widgets")
    assert world.client.get(widgets, Key(metadata["namespace"], "w"))
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    world.settle()
    # The server deletes a CRD's objects first, asynchronously.
    until(lambda: world.client.find(CRD, Key("", f"widgets.{group}")) is None, "the CRD gone")


def test_missing_namespace_of_an_object_is_created(world: World) -> None:
    name = f"{world.namespace}-other"
    world.cluster(write_release(world.releases, "v1", [config_map("a", namespace=name)]))
    world.secret()
    assert world.settle().retry_after is None
    assert world.client.get(CONFIG_MAP, Key(name, "a"))


def test_unknown_kind_is_reported_and_nothing_applied(world: World) -> None:
    gadget: Object = {"apiVersion": "nowhere.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    world.cluster(write_release(world.releases, "v1", [world.map("a"), gadget]))
    world.secret()
    assert world.settle().retry_after == 20.0
    assert "Gadget (nowhere.example.com/v1)" in world.condition("HelmChartApplied")["message"]
    assert world.names() == []


def test_values_template_sees_cluster_control_plane_and_infrastructure(world: World) -> None:
    values = "name: {{ .Cluster.metadata.name }}-{{ .Cluster.spec.controlPlaneEndpoint.host }}"
    template = (
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, namespace: "%s"}\ndata: {name: "{{ .Values.name }}"}'
    )
    release = write_release(world.releases, "v1", templates={"x.yaml": template % world.namespace}, values=values)
    world.cluster(release, controlPlaneEndpoint={"host": "h", "port": 1})
    world.secret()
    world.settle()
    assert world.read("v")["data"] == {"name": "demo-h"}


@pytest.mark.parametrize("class_name", ["", "quick-start", "docker-ferrol-1-27"])
def test_cluster_of_no_cluster_stack_gets_no_addon(world: World, class_name: str) -> None:
    world.cluster(class_name)
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    assert world.call("addon_create", change_event(cluster, "add", source="/test")).status == 204
    assert world.client.find(CLUSTER_ADDON, world.addon_key) is None


def test_new_cluster_gets_its_addon_without_a_read(world: World) -> None:
    cluster = world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    before = world.clients.management.requests
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    assert world.clients.management.requests - before == 1
    assert dig(world.addon(), "spec.clusterRef.uid") == cluster["metadata"]["uid"]


@pytest.mark.parametrize("owner", ["same", "other"])
def test_late_event_of_a_new_cluster_leaves_its_addon_unchanged(world: World, owner: str) -> None:
    cluster = world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    if owner == "other":
        references = [{**world.addon()["metadata"]["ownerReferences"][0], "uid": "other"}]
        world.client.patch(CLUSTER_ADDON, world.addon_key, {"metadata": {"ownerReferences": references}})
    before = world.addon()
    assert world.call("addon_create", change_event(cluster, "add", source="/test")).status in (200, 204)
    assert world.addon() == before


def test_cluster_with_null_topology_gets_no_addon(world: World) -> None:
    cluster = world.cluster()
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), {"spec": {"topology": None}})
    for name in ("cluster", "kubeconfig", "addon_create", "addon_apply"):
        assert world.call(name, change_event(cluster, "update", source="/test")).status < 400


def test_deleted_addon_is_recreated(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    addon = world.addon()
    key = world.addon_key
    world.client.delete(CLUSTER_ADDON, key)
    world.call("addon_apply", change_event(world.addon(), "update", source="/test"))
    assert world.client.find(CLUSTER_ADDON, key) is None
    world.call("addon_create", change_event(addon, "delete", source="/test"))
    assert world.addon()["metadata"]["uid"] != addon["metadata"]["uid"]
    world.settle()
    assert dig(world.addon(), "status.ready") is True


def test_addons_of_a_paused_cluster_are_not_changed(world: World) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    world.call("addon_create", change_event(world.cluster(name), "add", source="/test"))
    world.cluster(name, paused=True)
    world.secret()
    assert world.settle().status == 204
    assert world.condition("ClusterReady")["reason"] == "Paused"
    assert world.names() == []


def test_event_of_a_deleted_addon_is_done(world: World) -> None:
    gone: Object = {
        "apiVersion": CLUSTER.api_version,
        "kind": "Cluster",
        "metadata": {"name": "gone", "namespace": world.namespace, "uid": "x"},
        "spec": {"topology": {"classRef": {"name": "test-stack-1-36-v1"}}},
    }
    for name in ("cluster", "kubeconfig", "addon_create", "addon_apply"):
        for change in ("add", "update", "delete"):
            assert world.call(name, change_event(gone, change, source="/test")).status == 204


def test_concurrent_replicas_apply_without_conflict(world: World) -> None:
    objects = [world.map(f"m{n}") for n in range(20)]
    world.cluster(write_release(world.releases, "v1", objects))
    world.secret()
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map(f"m{n}", "2") for n in range(5, 25)]))
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    fetch = world.call("addon_apply", change_event(cluster, "update", source="/test"))
    assert fetch.reply is not None
    world.call("release_assets", fetch.reply)
    answers: list[Answer] = []
    event = change_event(cluster, "update", source="/test")
    threads = [threading.Thread(target=lambda: answers.append(world.call("addon_apply", event))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer.status in (204, 503) for answer in answers)
    world.settle()
    assert world.names() == sorted(f"m{n}" for n in range(5, 25))
    assert {world.read(f"m{n}")["data"]["k"] for n in range(5, 25)} == {"2"}
    assert dig(world.addon(), "status.ready") is True


def test_references_to_built_in_kinds_are_not_read(world: World) -> None:
    """A Cluster's owner can write any reference; the functions' rights must not be used to read it."""
    name, web = write_release(world.releases, "v1", [world.map("a")]), world.deployment()
    key = key_of(world.client.create(DEPLOYMENT, web))
    world.cluster(name, infrastructureRef={"apiGroup": "apps", "kind": "Deployment", "name": key.name})
    world.secret()
    cluster = world.client.get(CLUSTER, Key(world.namespace, "demo"))
    world.call("cluster", change_event(cluster, "update", source="/test"))
    world.settle()
    assert "ownerReferences" not in world.client.get(DEPLOYMENT, key)["metadata"]
    assert world.names() == []


def test_name_of_a_reference_cannot_be_a_path(world: World) -> None:
    path = f"../../../../../../api/v1/namespaces/{world.namespace}/secrets/demo-kubeconfig"
    ref = {"apiGroup": "infrastructure.cluster-k8s.io", "kind": "KINDCluster", "name": path}
    with pytest.raises(ApiError, match=r"infrastructureRef\.name in body should match"):
        world.cluster("some-class", infrastructureRef=ref)


def test_rejection_of_a_secret_does_not_quote_its_values(world: World) -> None:
    bad: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": world.namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": "hunter2"},
    }
    world.cluster(write_release(world.releases, "v1", [bad]))
    world.secret()
    world.settle()
    assert "hunter2" not in str(world.addon())
    assert "redacted" in world.condition("HelmChartApplied")["message"]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("metadata.yaml", "metadata.yaml: missing"),
        ("test-stack-1-36-cluster-addon-v1.tgz", "test-stack-1-36-cluster-addon-v1.tgz: missing"),
        ("test-stack-1-36-cluster-class-v1.tgz", "test-stack-1-36-cluster-class-v1.tgz: missing"),
    ],
)
def test_incomplete_release_folder_is_reported_and_fetched_once_complete(
    world: World, missing: str, words: str
) -> None:
    name = write_release(world.releases, "v1", [world.map("a")])
    file = world.releases / name / missing
    content = file.read_bytes()
    file.unlink()
    world.cluster(name)
    world.secret()
    answer = world.settle()
    assert (answer.status, answer.retry_after) == (202, 10.0)
    found = world.condition("ClusterStackReleaseDownloaded")
    assert found["reason"] == "IssueWithReleaseAssets"
    assert words in found["message"]
    # Once the folder is complete, the next reconcile uses it.
    file.write_bytes(content)
    request_event = own_event(
        "release.wanted", source="/test", subject=name, about=world.addon(), data={"release": name}
    )
    fetched = world.call("release_assets", request_event)
    assert fetched.reply is not None
    world.call("addon_apply", fetched.reply)
    assert world.names() == ["a"]


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "addons/../../evil"])
def test_hostile_chart_is_reported_in_a_condition(world: World, path: str) -> None:
    files = {"addons/Chart.yaml": "apiVersion: v2\nname: addons\nversion: 1.0.0\n", path: "x"}
    world.cluster(write_release(world.releases, "v1", addon_chart=archive(files)))
    world.secret()
    assert world.settle().retry_after == 60.0
    message = world.condition("HelmChartTemplated")["message"]
    assert "test-stack-1-36-cluster-addon-v1.tgz" in message
    assert "evil" in message


FACTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: facts, namespace: "%s"}
data:
  version: "{{ .Capabilities.KubeVersion.Version }}"
  deployments: "{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }}"
  ours: "{{ .Capabilities.APIVersions.Has "clusterstack.x-k8s.io/v1alpha1" }}"
  other: "{{ .Capabilities.APIVersions.Has "nowhere.example.com/v1" }}"
"""


def test_chart_that_asks_for_capabilities_sees_the_live_cluster(
    world: World, helm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM", str(helm))
    world.cluster(write_release(world.releases, "v1", templates={"facts.yaml": FACTS % world.namespace}))
    world.secret()
    assert world.settle().retry_after is None
    live = world.client.request("GET", "/version")["gitVersion"]
    facts = {"version": live, "deployments": "true", "ours": "true", "other": "false"}
    assert world.read("facts")["data"] == facts


def test_missing_helm_program_is_reported_in_a_condition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", "/nowhere/helm")
    world.cluster(write_release(world.releases, "v1", templates={"facts.yaml": FACTS % world.namespace}))
    world.secret()
    world.settle()
    assert "install the helm program" in world.condition("HelmChartTemplated")["message"]


def test_deletion_of_the_addon_of_a_paused_cluster_waits_for_its_end(world: World) -> None:
    """`clusterctl move` pauses a Cluster, and removes the finalizers of its objects itself."""
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), {"spec": {"paused": True}})
    world.client.delete(CLUSTER_ADDON, world.addon_key)
    addon = world.addon()
    assert addon["metadata"]["deletionTimestamp"]
    assert world.call("addon_apply", change_event(addon, "update", source="/test")).status == 204
    assert world.addon()["metadata"] == addon["metadata"]
    world.client.patch(CLUSTER, Key(world.namespace, "demo"), {"spec": {"paused": None}})
    resumed = change_event(world.client.get(CLUSTER, Key(world.namespace, "demo")), "update", source="/test")
    assert world.call("addon_apply", resumed).status == 204
    assert world.client.find(CLUSTER_ADDON, world.addon_key) is None
    assert world.names() == ["a"]


@pytest.mark.parametrize("topology", [None, {}, {"classRef": None}, {"classRef": {}}, {"class": ""}])
def test_cluster_without_a_class_gets_no_addons(world: World, topology: Object | None) -> None:
    """A Cluster without topology crashed the manager."""
    cluster = world.cluster()
    for spec in ({"topology": topology}, {}):
        event = change_event({**cluster, "spec": spec}, "update", source="/test")
        for name in ("cluster", "kubeconfig", "addon_create", "addon_apply"):
            assert world.call(name, event).status in (202, 204)
    assert list(world.client.list(CLUSTER_ADDON, world.namespace)) == []


def test_class_in_another_namespace_is_found(world: World) -> None:
    """Clusters with a class of another namespace got no addons."""
    name = write_release(world.releases, "v1", [world.map("a")])
    world.cluster(topology={"classRef": {"name": name, "namespace": "default"}})
    world.secret()
    world.settle()
    assert world.names() == ["a"]
    assert dig(world.addon(), "status.ready") is True


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
