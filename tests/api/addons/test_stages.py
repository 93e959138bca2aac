"""Releases with stages: order, conditions, deletion, resumption, and recovery from a faulty release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.resources import CLUSTER_ADDON, CONFIG_MAP
from shared.event import change_event
from shared.kube import Client, Key, dig
from tests.support.planes import connected, running_plane
from tests.support.releases import HOOK_STAGES, config_map, write_release, write_stages
from tests.support.world import World

BOTH = """
  AfterControlPlaneInitialized: &stages
    - {name: cni, action: apply}
    - {name: csi, action: apply}
  BeforeClusterUpgrade: *stages
"""


def phases(world: World) -> dict[str, str]:
    return {stage["name"]: stage["phase"] for stage in dig(world.addon(), "status.stages", [])}


def test_stages_are_applied_in_order(world: World) -> None:
    charts = {"cni": [world.map("net")], "csi": [world.map("store")]}
    world.cluster(write_stages(world.releases, "v1", BOTH, charts))
    world.secret()
    assert world.settle().retry_after is None
    assert world.names() == ["net", "store"]
    assert phases(world) == {"cni": "done", "csi": "done"}
    stages = {entry["name"]: entry["stage"] for entry in dig(world.addon(), "status.resources")}
    assert stages == {"net": "cni", "store": "csi"}
    assert dig(world.addon(), "status.ready") is True
    assert dig(world.addon(), "spec.hook") == ""


def test_each_stage_chart_has_its_own_values(world: World) -> None:
    """Values of one chart must not leak into the next one."""
    template = {"all.yaml": 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ .Chart.Name }}", namespace: %s}\n'}
    text = template["all.yaml"] % world.namespace + 'data: {k: "{{ .Values.k }}"}\n'
    templates = {name: {"all.yaml": text} for name in ("cni", "csi")}
    overwrite = {"cni": "k: {{ .Cluster.metadata.name }}"}
    world.cluster(write_stages(world.releases, "v1", BOTH, {}, overwrite=overwrite, templates=templates))
    world.secret()
    world.settle()
    assert (world.read("cni")["data"], world.read("csi")["data"]) == ({"k": "demo"}, {"k": ""})


GATED = """
  AfterControlPlaneInitialized: &stages
    - name: cni
      waitForPostCondition:
        objects: [{key: net, apiVersion: v1, kind: ConfigMap, name: net, namespace: %(namespace)s}]
        conditions: net.data.state == "up"
      timeout: %(timeout)s
    - name: csi
      waitForPreCondition:
        objects: [{key: go, apiVersion: v1, kind: ConfigMap, name: go, namespace: %(namespace)s}]
        conditions: go.data.k == "1"
  BeforeClusterUpgrade: *stages
"""


def gated(world: World, version: str = "v1", timeout: str = "10m") -> str:
    config = GATED % {"namespace": world.namespace, "timeout": timeout}
    charts = {"cni": [world.map("net", version)], "csi": [world.map("store", version)]}
    return write_stages(world.releases, version, config, charts)


def test_stage_waits_for_its_conditions(world: World) -> None:
    world.cluster(gated(world))
    world.secret()
    assert world.settle().retry_after == 20.0
    assert phases(world) == {"cni": "waitingForPostCondition", "csi": "Pending"}
    found = world.condition("EvaluatedCEL")
    assert found["reason"] == "FailedToEvaluatePostCondition"
    assert 'net.data.state == "up"' in found["message"]
    since = dig(world.addon(), "status.stages")[0]["since"]
    # Another reconcile changes only the time.
    assert world.settle().retry_after == 20.0
    assert dig(world.addon(), "status.stages")[0]["since"] == since
    world.client.patch(CONFIG_MAP, Key(world.namespace, "net"), {"data": {"state": "up"}})
    assert world.settle().retry_after == 20.0
    assert phases(world) == {"cni": "done", "csi": "waitingForPreCondition"}
    assert f"ConfigMap {world.namespace}/go does not exist" in world.condition("EvaluatedCEL")["message"]
    assert world.names() == ["net"]
    world.client.create(CONFIG_MAP, world.map("go"))
    assert world.settle().retry_after is None
    assert world.names() == ["go", "net", "store"]
    assert dig(world.addon(), "status.ready") is True
    assert "EvaluatedCEL" not in {c["type"] for c in dig(world.addon(), "status.conditions")}


def test_overdue_condition_is_reported(world: World) -> None:
    world.cluster(gated(world, timeout="1s"))
    world.secret()
    world.settle()
    stages = dig(world.addon(), "status.stages")
    stages[0]["since"] = "2020-01-01T00:00:00Z"
    world.client.patch(CLUSTER_ADDON, world.addon_key, {"status": {"stages": stages}}, subresource="status")
    assert world.settle().retry_after == 20.0
    found = world.condition("EvaluatedCEL")
    assert (found["reason"], found["severity"]) == ("PostConditionOverdue", "Warning")
    assert "the timeout of the stage (1 s) has passed" in found["message"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [("net.data.state ==", "Syntax error"), ("nett.x == 1", "the objects listed for it are: net"), ("1", "int")],
)
def test_invalid_condition_is_reported(world: World, expression: str, words: str) -> None:
    config = (
        "\n  AfterControlPlaneInitialized:\n    - name: cni\n      waitForPostCondition:\n"
        f"        objects: [{{key: net, apiVersion: v1, kind: ConfigMap, name: net, namespace: {world.namespace}}}]\n"
        f"        conditions: {expression}\n"
    )
    world.cluster(write_stages(world.releases, "v1", config, {"cni": [world.map("net")]}))
    world.secret()
    assert world.settle().retry_after == 20.0
    found = world.condition("EvaluatedCEL")
    assert found["severity"] == "Error"
    assert words in found["message"]


def test_faulty_release_is_replaced_by_a_fixed_one_at_any_stage(world: World) -> None:
    """The hook of the faulty release must not stay set."""
    world.cluster(gated(world))
    world.secret()
    assert world.settle().retry_after == 20.0
    charts = {"cni": [world.map("net", "fixed")], "csi": [world.map("store")]}
    world.cluster(write_stages(world.releases, "v2", BOTH, charts))
    assert world.settle().retry_after is None
    assert world.read("net")["data"]["k"] == "fixed"
    assert dig(world.addon(), "spec.clusterStack") == "test-stack-1-36-v2"
    assert dig(world.addon(), "spec.hook") == ""


def test_missing_chart_stops_the_stages(world: World) -> None:
    """A missing chart must not count as done."""
    config = "\n  AfterControlPlaneInitialized: [{name: nothing}, {name: csi}]\n"
    world.cluster(write_stages(world.releases, "v1", config, {"csi": [world.map("store")]}))
    world.secret()
    assert world.settle().retry_after == 60.0
    assert "does not contain chart 'nothing'" in world.condition("HelmChartTemplated")["message"]
    assert world.names() == []
    assert dig(world.addon(), "status.ready") is False


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("\n  SomeHook: []\n", "SomeHook: no such hook"),
        ("\n  AfterControlPlaneInitialized: [{name: a, action: drop}]\n", "must be apply or delete"),
        (" [", "not YAML"),
    ],
)
def test_invalid_stages_are_reported_in_a_condition(world: World, config: str, words: str) -> None:
    world.cluster(write_stages(world.releases, "v1", config, {"a": [world.map("a")]}))
    world.secret()
    assert world.settle().retry_after == 60.0
    found = world.condition("ClusterAddonConfigValidated")
    assert found["reason"] == "ParsingClusterAddonConfigFailed"
    assert words in found["message"]


UPGRADE = """
  AfterControlPlaneInitialized:
    - {name: cni}
    - {name: old}
  BeforeClusterUpgrade:
    - {name: old, action: delete}
    - {name: cni}
"""


def test_upgrade_in_stages_deletes_updates_and_prunes(world: World) -> None:
    charts = {"cni": [world.map("net"), world.map("dropped")], "old": [world.map("legacy")]}
    world.cluster(write_stages(world.releases, "v1", UPGRADE, charts))
    world.secret()
    world.settle()
    assert world.names() == ["dropped", "legacy", "net"]
    charts = {"cni": [world.map("net", "2")], "old": [world.map("legacy")]}
    world.cluster(write_stages(world.releases, "v2", UPGRADE, charts))
    assert world.settle().retry_after is None
    assert world.names() == ["net"]
    assert world.read("net")["data"]["k"] == "2"
    assert world.addon()["metadata"]["annotations"]["ClusterAddonStage"] == "upgraded"


def test_object_that_moves_to_another_stage_is_not_deleted(world: World) -> None:
    charts = {"cni": [world.map("shared")], "csi": [world.map("store")]}
    world.cluster(write_stages(world.releases, "v1", BOTH, charts))
    world.secret()
    world.settle()
    uid = world.read("shared")["metadata"]["uid"]
    charts = {"cni": [world.map("net")], "csi": [world.map("store"), world.map("shared")]}
    world.cluster(write_stages(world.releases, "v2", BOTH, charts))
    world.settle()
    assert world.read("shared")["metadata"]["uid"] == uid
    assert world.names() == ["net", "shared", "store"]


def test_upgrade_between_umbrella_chart_and_stages(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a"), world.map("b")]))
    world.secret()
    world.settle()
    charts = {"cni": [world.map("a", "2")], "csi": [world.map("c")]}
    world.cluster(write_stages(world.releases, "v2", BOTH, charts))
    world.settle()
    assert world.names() == ["a", "c"]
    world.cluster(write_release(world.releases, "v3", [world.map("b")]))
    world.settle()
    assert world.names() == ["b"]
    assert dig(world.addon(), "status.stages") is None


def test_rollout_resumes_after_each_interruption(world: World) -> None:
    """An object of the second stage fails: the first stage is not repeated, nothing is pruned, the rollout resumes."""
    world.cluster(write_stages(world.releases, "v1", BOTH, {"cni": [world.map("net")], "csi": [world.map("gone")]}))
    world.secret()
    world.settle()
    bad = {**world.map("bad"), "data": {"k": 1}}
    charts = {"cni": [world.map("net", "2")], "csi": [world.map("store"), bad]}
    name = write_stages(world.releases, "v2", BOTH, charts)
    world.cluster(name)
    assert world.settle().retry_after == 20.0
    assert phases(world) == {"cni": "done", "csi": "applyingOrDeleting"}
    assert world.names() == ["gone", "net", "store"]
    # The obstacle is removed; nothing was reported as ready before.
    assert dig(world.addon(), "spec.clusterStack") == "test-stack-1-36-v1"
    assert dig(world.addon(), "spec.version") == "v1"
    version = world.read("net")["metadata"]["resourceVersion"]
    world.cluster(
        write_stages(world.releases, "v3", BOTH, {"cni": [world.map("net", "2")], "csi": [world.map("store")]})
    )
    assert world.settle().retry_after is None
    assert world.names() == ["net", "store"]
    assert world.read("net")["metadata"]["resourceVersion"] == version


def test_stages_after_the_cluster_upgrade_are_applied(world: World) -> None:
    charts = {"cni": [world.map("net")], "last": [world.map("late")]}
    world.cluster(write_stages(world.releases, "v1", HOOK_STAGES, charts))
    world.secret()
    world.settle()
    assert world.names() == ["net"]
    key = world.addon_key
    world.client.patch(CLUSTER_ADDON, key, {"spec": {"hook": "AfterClusterUpgrade"}})
    assert world.settle().retry_after is None
    assert world.names() == ["late", "net"]
    assert dig(world.addon(), "spec.hook") == ""
    # A later reconcile prunes nothing of it.
    world.cluster("test-stack-1-36-v1", policy={"drift": "repair"})
    world.client.delete(CONFIG_MAP, Key(world.namespace, "late"))
    world.resync()
    assert world.names() == ["late", "net"]


REPORTED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: reported, namespace: "%s"}
data: {version: "{{ .Capabilities.KubeVersion.Version }}"}
"""


@pytest.mark.parametrize("woken_by", ["the hook after the upgrade", "a look at everything"])
def test_addons_are_rendered_again_once_the_new_kubernetes_is_live(
    world: World, helm: Path, monkeypatch: pytest.MonkeyPatch, woken_by: str
) -> None:
    monkeypatch.setenv("HELM", str(helm))
    world.cluster(write_release(world.releases, "v1", templates={"reported.yaml": REPORTED % world.namespace}))
    world.secret()
    world.settle()
    live = world.client.request("GET", "/version")["gitVersion"]
    assert dig(world.addon(), "status.kubernetesVersion") == live
    # As after an upgrade of the control plane: the addon has the former version.
    key = world.addon_key
    old = {"status": {"kubernetesVersion": "v1.35.0", "digest": "sha256:of-then"}}
    world.client.patch(CLUSTER_ADDON, key, old, subresource="status")
    world.client.patch(CONFIG_MAP, Key(world.namespace, "reported"), {"data": {"version": "v1.35.0"}})
    if woken_by == "a look at everything":
        assert world.resync().retry_after is None
    else:
        world.client.patch(CLUSTER_ADDON, key, {"spec": {"hook": "AfterClusterUpgrade"}})
        assert world.settle().retry_after is None
        assert dig(world.addon(), "spec.hook") == ""
    assert world.read("reported")["data"] == {"version": live}
    assert dig(world.addon(), "status.kubernetesVersion") == live


@pytest.fixture
def workload(tmp_path: Path) -> Iterator[tuple[bytes, Client]]:
    """A cluster that does not manage clusters."""
    with running_plane(tmp_path / "workload", groups=()) as folder, connected(folder) as client:
        yield local_control_plane.kubeconfig(folder).read_bytes(), client


def test_addons_of_cluster_stack_operator_are_adopted(world: World, workload: tuple[bytes, Client]) -> None:
    """cluster-stack-operator keeps no inventory after its stages: its objects are known by their label only."""
    kubeconfig, there = workload

    def names() -> list[str]:
        found = {obj["metadata"]["name"] for obj in there.list(CONFIG_MAP, "default")}
        return sorted(found - {"kube-root-ca.crt"})

    name = write_stages(world.releases, "v1", BOTH, {"cni": [config_map("net")], "csi": [config_map("gone")]})
    for obj in (config_map("net"), config_map("gone")):
        obj["metadata"]["labels"] = {"clusterstack.x-k8s.io/instance": "owned"}
        there.apply(CONFIG_MAP, obj, manager="kubectl")
    there.create(CONFIG_MAP, config_map("foreign"))
    cluster = world.cluster(name)
    world.secret(kubeconfig)
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    key = world.addon_key
    world.client.patch(CLUSTER_ADDON, key, {"spec": {"clusterStack": name, "version": "v1"}})
    ready = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{**ready, "type": type_} for type_ in ("Ready", "ClusterReady", "HelmChartApplied")]
    status = {"status": {"ready": True, "conditions": conditions}}
    world.client.patch(CLUSTER_ADDON, key, status, subresource="status")
    assert world.settle().retry_after is None
    assert names() == ["foreign", "gone", "net"]
    charts = {"cni": [config_map("net", "2")], "csi": [config_map("new")]}
    world.cluster(write_stages(world.releases, "v2", BOTH, charts))
    assert world.settle().retry_after is None
    assert there.get(CONFIG_MAP, Key("default", "net"))["data"]["k"] == "2"
    assert names() == ["foreign", "net", "new"]


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
        world.reconcile(write_stages(world.releases, version, config, {}, overwrite=overwrite, templates=templates))
        assert world.names() == names


def test_each_upgrade_starts_from_the_inventory(world: World) -> None:
    """The second upgrade compared with outdated data, and deleted by the new stages."""
    first = {"cni": [world.map("net"), world.map("one")], "csi": [world.map("store")]}
    world.reconcile(write_stages(world.releases, "v1", BOTH, first))
    world.reconcile(write_stages(world.releases, "v2", BOTH, {"cni": [world.map("net"), world.map("two")], "csi": []}))
    assert world.names() == ["net", "two"]
    assert world.addon()["metadata"]["annotations"]["ClusterAddonStage"] == "upgraded"
    config = "\n  BeforeClusterUpgrade: [{name: csi}]\n"
    assert world.reconcile(write_stages(world.releases, "v3", config, {"csi": [world.map("store", "3")]})) is None
    assert world.names() == ["store"]
    assert world.read("store")["data"]["k"] == "3"
