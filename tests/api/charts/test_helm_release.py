"""A HelmReleaseProxy installs, upgrades and uninstalls a chart, and the helm program sees the release as its own."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.api.resources import CLUSTER, CONFIG_MAP, HELM_RELEASE_PROXY, NAMESPACE, SECRET
from shared.helm_proxies.names import CLUSTER_NAME_LABEL, RELEASE_NAME_GENERATED
from shared.helm_proxies.release_record import decode, secret_name, write_record
from shared.kube import Key, Resource, dig
from shared.kube.crds import CRD
from tests.support import objects
from tests.support.helm_releases import MAP, HelmWorld, packed

TWO = {"a.yaml": MAP.format("a"), "b.yaml": MAP.format("b")}


def names(world: HelmWorld) -> set[str]:
    return {obj["metadata"]["name"] for obj in world.client.list(CONFIG_MAP, world.releases)} - {"kube-root-ca.crt"}


def test_chart_is_installed_upgraded_and_uninstalled(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", TWO)
    world.proxy(values="x: 1e3\nflag: true\n")
    assert world.call().retry_after is None
    assert world.condition("Ready")["status"] == "True", world.read()
    assert names(world) == {"a", "b"}
    live = world.client.get(CONFIG_MAP, Key(world.releases, "a"))
    assert live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert live["metadata"]["annotations"]["meta.helm.sh/release-name"] == "web"
    assert world.history() == [(1, "deployed")]
    assert json.loads(world.helm("get", "values", "web", "--output", "json")) == {"x": 1000, "flag": True}
    assert "name: b" in world.helm("get", "manifest", "web")

    assert world.call(resync=True).retry_after is None
    assert world.history() == [(1, "deployed")]

    world.chart("2.0.0", {"a.yaml": MAP.format("a")})
    world.proxy(version="2.0.0", values="x: z\n")
    assert world.call().retry_after is None
    assert names(world) == {"a"}
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"x": "z"}
    assert world.history() == [(1, "superseded"), (2, "deployed")]
    assert dig(world.read(), "status.revision") == 2
    assert json.loads(world.helm("list", "--output", "json"))[0]["chart"] == "web-2.0.0"

    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    assert world.call().retry_after is None
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None
    assert names(world) == set()
    assert json.loads(world.helm("list", "--output", "json")) == []


def test_former_record_that_cannot_be_written_yet_is_superseded_later(helm_world: HelmWorld) -> None:
    world = helm_world
    for version in ("1.0.0", "2.0.0"):
        world.chart(version, TWO)
    world.proxy()
    world.call()
    key = Key(world.releases, secret_name("web", 1))
    former = world.client.patch(SECRET, key, {"immutable": True})
    world.proxy(version="2.0.0")
    assert world.call().retry_after is not None
    assert world.history() == [(1, "deployed"), (2, "pending-upgrade")]
    world.client.delete(SECRET, key)
    kept = {name: former[name] for name in ("apiVersion", "kind", "type", "data")}
    metadata = {name: former["metadata"][name] for name in ("name", "namespace", "labels")}
    world.client.create(SECRET, {**kept, "metadata": metadata})
    assert world.call().retry_after is None
    assert world.history() == [(1, "superseded"), (2, "deployed")]


def test_interrupted_installation_of_another_version_is_superseded(helm_world: HelmWorld) -> None:
    world = helm_world
    for version in ("1.0.0", "2.0.0"):
        world.chart(version, TWO)
    world.proxy()
    world.call()
    pending = decode(world.client.get(SECRET, Key(world.releases, secret_name("web", 1))))
    write_record(world.client, replace(pending, status="pending-install"), datetime.now(UTC))
    world.proxy(version="2.0.0")
    assert world.call().retry_after is None
    assert world.history() == [(1, "superseded"), (2, "deployed")]


def test_drift_is_repaired_and_nothing_is_written_without_it(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart(
        "1.0.0", {"a.yaml": MAP.format("a") + "immutable: false\nbinaryData: {random: {{ randAlphaNum 9 | b64enc }}}\n"}
    )
    world.proxy()
    world.call()
    key = Key(world.releases, "a")
    before, proxy = world.client.get(CONFIG_MAP, key), world.read()
    assert world.call(resync=True).retry_after is None
    assert world.client.get(CONFIG_MAP, key) == before
    assert world.read() == proxy
    world.client.patch(CONFIG_MAP, key, {"data": {"x": "other"}})
    world.call(resync=True)
    assert world.client.get(CONFIG_MAP, key)["data"] == before["data"]
    assert world.history() == [(1, "deployed")]


def forge(world: HelmWorld, revision: int, into: int, **fields: Any) -> None:
    """Stores the record of a revision with other fields, as somebody who may write Secrets in the cluster can."""
    record = decode(world.client.get(SECRET, Key(world.releases, secret_name("web", revision))))
    write_record(world.client, replace(record, revision=into, **fields), datetime.now(UTC))


def test_forged_record_is_not_applied(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy()
    world.call()
    evil = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil}\n"
    forge(world, 1, 1, manifest=evil)
    assert world.call(resync=True).retry_after is None, world.read()
    assert names(world) == {"a"}
    assert world.history() == [(1, "superseded"), (2, "deployed")]
    forge(world, 2, 3, manifest=evil)  # with the same chart and values
    assert world.call(resync=True).retry_after is None, world.read()
    assert world.history()[-1] == (4, "deployed")
    hook = {"name": "evil", "kind": "ConfigMap", "path": "evil.yaml", "events": ["pre-delete"]}
    annotations = 'annotations: {"helm.sh/hook": pre-delete}'
    forge(world, 4, 4, hooks=[{**hook, "manifest": evil.replace("name: evil", f"name: evil, {annotations}")}])
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    assert world.call().retry_after is None
    assert names(world) == set()


def test_release_of_the_helm_program_is_taken_over(helm_world: HelmWorld) -> None:
    world = helm_world
    (world.folder / "web.tgz").write_bytes(packed("1.0.0", TWO))
    world.helm("install", "web", str(world.folder / "web.tgz"), "--create-namespace", "--set", "x=1")
    before = {name: world.client.get(CONFIG_MAP, Key(world.releases, name)) for name in names(world)}
    world.chart("1.0.0", TWO)
    world.proxy(values="x: 1\n")
    assert world.call().retry_after is None
    world.call(resync=True)
    assert {name: world.client.get(CONFIG_MAP, Key(world.releases, name)) for name in names(world)} == before
    assert world.history() == [(1, "deployed")]
    assert world.condition("Ready")["status"] == "True"
    assert len(dig(world.read(), "status.resources")) == 2

    world.chart("2.0.0", {"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {z: z}\n"})
    world.proxy(version="2.0.0", values="x: 1\n")
    assert world.call().retry_after is None, world.read()
    assert names(world) == {"a"}
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"z": "z"}
    assert world.history() == [(1, "superseded"), (2, "deployed")]

    (world.folder / "web.tgz").write_bytes(packed("3.0.0", TWO))
    world.helm("upgrade", "web", str(world.folder / "web.tgz"))
    assert names(world) == {"a", "b"}
    world.call(resync=True)  # somebody else has upgraded the release
    assert names(world) == {"a"}
    assert world.history()[-1] == (4, "deployed")
    world.helm("uninstall", "web")
    assert names(world) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [("failed", "failed"), ("pending-install", "superseded"), ("pending-upgrade", "superseded")],
)
def test_release_that_the_helm_program_has_not_completed_is_upgraded(
    helm_world: HelmWorld, before: str, after: str
) -> None:
    world = helm_world
    (world.folder / "web.tgz").write_bytes(packed("1.0.0", TWO))
    world.helm("install", "web", str(world.folder / "web.tgz"), "--create-namespace")
    deployed = decode(world.client.get(SECRET, Key(world.releases, secret_name("web", 1))))
    write_record(world.client, replace(deployed, status=before), datetime.now(UTC))
    world.chart("1.0.0", TWO)
    world.proxy()
    assert world.call().retry_after is None
    assert world.history() == [(1, after), (2, "deployed")]
    assert world.condition("Ready")["status"] == "True"


def test_object_of_others_is_refused_until_ownership_is_taken(helm_world: HelmWorld) -> None:
    world = helm_world
    world.client.create(NAMESPACE, objects.manifest(NAMESPACE, world.releases))
    world.client.create(CONFIG_MAP, objects.manifest(CONFIG_MAP, "a", world.releases, data={"mine": "1"}))
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy()
    assert world.call().retry_after
    refused = world.condition("HelmReleaseReady")
    assert refused["reason"] == "HelmInstallOrUpgradeFailed"
    assert "takeOwnership" in refused["message"], refused
    assert f"{world.releases}/a" in refused["message"]
    assert world.history() == [(1, "failed")]
    assert dig(world.read(), "status.status") == "failed"

    world.proxy(options={"takeOwnership": True})
    assert world.call().retry_after is None, world.read()
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"mine": "1", "x": "default"}
    assert world.history() == [(1, "deployed")]


def test_second_proxy_of_a_release_reports_and_does_not_fight(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy()
    world.call()
    labels = {"metadata": {"labels": {CLUSTER_NAME_LABEL: None}}}  # labels are not what counts
    world.client.patch(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"), labels)
    world.proxy("second", values="x: second\n")
    assert world.call("second").retry_after
    assert "HelmReleaseProxy web-demo" in world.condition("HelmReleaseReady", "second")["message"]
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"x": "default"}
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "second"))
    world.call("second")
    assert names(world) == {"a"}


def test_object_of_two_charts_belongs_to_the_lower_tier(helm_world: HelmWorld) -> None:
    world, key = helm_world, Key(helm_world.releases, "a")
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})

    def settled() -> str:
        """Resyncs both releases twice; returns whose value the object has, which must not change meanwhile."""
        found = []
        for name in ("web-demo", "second") * 2:
            world.call(name, resync=True)
            found.append(world.client.get(CONFIG_MAP, key))
        assert found[1] == found[2] == found[3]
        return str(found[3]["data"]["x"])

    world.proxy(values="x: first\n")
    world.call()
    world.proxy("second", releaseName="second", values="x: second\n")
    assert settled() == "first"
    message = world.condition("HelmReleaseReady", "second")["message"]
    assert f"ConfigMap {world.releases}/a" in message
    assert f"it belongs to release {world.releases}/web, chart web, tier 100; this release, of tier 100" in message
    assert world.condition("HelmReleaseReady")["status"] == "True"

    world.proxy("second", releaseName="second", values="x: second\n", tier=50)
    assert settled() == "second"
    assert world.condition("HelmReleaseReady", "second")["status"] == "True"
    assert "tier 50; this release, of tier 100" in world.condition("HelmReleaseReady")["message"]

    take = {"takeOwnership": True}
    world.proxy(values="x: first\n", options=take)
    assert settled() == "second"  # a lower tier keeps its objects from an owner that takes others

    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.call()
    assert world.client.get(CONFIG_MAP, key)["data"] == {"x": "second"}
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None


def test_charts_that_both_take_ownership_do_not_fight(helm_world: HelmWorld) -> None:
    world, key = helm_world, Key(helm_world.releases, "a")
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    take = {"takeOwnership": True}
    world.proxy(values="x: first\n")
    world.call()
    world.proxy("second", releaseName="second", values="x: second\n", options=take)
    world.call("second")
    assert world.client.get(CONFIG_MAP, key)["data"] == {"x": "second"}
    world.proxy(values="x: first\n", options=take)
    for name in ("web-demo", "second"):
        world.call(name, resync=True)
        assert world.client.get(CONFIG_MAP, key)["data"] == {"x": "second"}
    assert world.condition("HelmReleaseReady")["status"] == "False"


def test_namespace_is_not_created_on_request(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy(options={"install": {"createNamespace": False}})
    world.call()
    assert f"namespace {world.releases} does not exist" in world.condition("HelmReleaseReady")["message"]
    assert world.client.find(NAMESPACE, Key("", world.releases)) is None


def test_crds_are_created_once_and_stay(helm_world: HelmWorld) -> None:
    world = helm_world
    group = f"{world.namespace}.example.com"
    crd = objects.widgets_crd(group)
    widget = f"apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: w}}\n"
    world.chart("1.0.0", {"w.yaml": widget}, crds__w=json.dumps(crd))
    world.proxy(options={"upgrade": {"maxHistory": 1}})
    assert world.call().retry_after is None, world.read()
    key = Key("", crd["metadata"]["name"])
    before = world.client.get(CRD, key)
    assert "meta.helm.sh/release-name" not in dig(before, "metadata.annotations", {})
    world.chart("2.0.0", {"a.yaml": MAP.format("a")})
    world.proxy(version="2.0.0", options={"upgrade": {"maxHistory": 1}})
    assert world.call().retry_after is None, world.read()
    assert names(world) == {"a"}
    assert world.history() == [(2, "deployed")]
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.call()
    assert world.client.get(CRD, key) == before
    world.client.delete(CRD, key)


def test_included_crds_are_upgraded_and_stay(helm_world: HelmWorld) -> None:
    world = helm_world
    crd = objects.widgets_crd(f"{world.namespace}.example.com")
    key = Key("", crd["metadata"]["name"])
    options = {"install": {"includeCRDs": True}}
    world.chart("1.0.0", {"a.yaml": MAP.format("a")}, crds__w=json.dumps(crd))
    world.proxy(options=options)
    assert world.call().retry_after is None, world.read()
    assert key.name in world.helm("get", "manifest", "web")
    crd["spec"]["names"]["shortNames"] = ["wdg"]
    world.chart("2.0.0", {"a.yaml": MAP.format("a")}, crds__w=json.dumps(crd))
    world.proxy(version="2.0.0", options=options)
    assert world.call().retry_after is None, world.read()
    assert world.client.get(CRD, key)["spec"]["names"]["shortNames"] == ["wdg"]
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.call()
    assert names(world) == set()
    assert world.client.find(CRD, key) is not None
    world.client.delete(CRD, key)


def test_immutable_object_is_recreated_by_force_only(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a") + "immutable: true\n"})
    world.proxy()
    world.call()
    world.proxy(values="x: 2\n")
    assert world.call().retry_after
    assert "immutable" in world.condition("HelmReleaseReady")["message"]
    world.proxy(values="x: 2\n", options={"upgrade": {"force": True}})
    assert world.call().retry_after is None, world.read()
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"x": "2"}


REJECTED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: [rejected]\n"


def test_failed_atomic_upgrade_is_rolled_back_once(helm_world: HelmWorld) -> None:
    world = helm_world
    options = {"atomic": True}
    world.chart("1.0.0", TWO)
    world.proxy(values="x: old\n", options=options)
    assert world.call().retry_after is None
    world.chart("2.0.0", {"a.yaml": MAP.format("a"), "c.yaml": MAP.format("c"), "z.yaml": REJECTED})
    world.proxy(version="2.0.0", values="x: new\n", options=options)
    assert world.call().retry_after
    assert world.history() == [(1, "deployed"), (2, "failed")]
    failing = world.read()["status"]
    assert world.call().retry_after is None
    after = [(1, "superseded"), (2, "failed"), (3, "deployed")]
    assert world.history() == after
    listed = json.loads(world.helm("history", "web", "--output", "json"))[-1]
    assert (listed["description"], listed["chart"]) == ("Rollback to 1", "web-1.0.0")
    assert names(world) == {"a", "b"}
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"x": "old"}
    condition = world.condition("HelmReleaseReady")
    assert condition["status"] == "False"
    assert "ConfigMap" in condition["message"]
    assert "rollback to 1 is done" in condition["message"]
    assert (dig(world.read(), "status.status"), dig(world.read(), "status.revision")) == ("deployed", 3)

    attempt = dig(world.read(), "status.failedAttempt")  # a process that ends before it reports the rollback
    lost = {**failing, "status": "pending-rollback", "revision": 3, "failedAttempt": None}
    patch = {"status": {**lost, "recordDigest": dig(world.read(), "status.recordDigest")}}
    world.client.patch(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"), patch, subresource="status")
    world.call()
    assert dig(world.read(), "status.failedAttempt") == attempt
    assert world.condition("Ready")["status"] == "False"
    condition = world.condition("HelmReleaseReady")
    world.call()
    world.client.patch(CONFIG_MAP, Key(world.releases, "a"), {"data": {"x": "other"}})
    world.call(resync=True)
    assert world.history() == after, "the same operation is not tried again"
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a"))["data"] == {"x": "old"}
    assert world.condition("HelmReleaseReady") == condition

    world.chart("3.0.0", {"a.yaml": MAP.format("a")})
    world.proxy(version="3.0.0", values="x: new\n", options=options)
    assert world.call().retry_after is None, world.read()
    assert names(world) == {"a"}
    assert world.condition("Ready")["status"] == "True"
    assert world.history()[-1] == (4, "deployed")
    assert dig(world.read(), "status.failedAttempt") is None


def test_rollback_refuses_a_forged_record(helm_world: HelmWorld) -> None:
    world = helm_world
    options = {"atomic": True}
    world.chart("1.0.0", TWO)
    world.proxy(options=options)
    world.call()
    world.chart("2.0.0", {"a.yaml": MAP.format("a"), "z.yaml": REJECTED})
    world.proxy(version="2.0.0", options=options)
    world.call()
    forge(world, 1, 1, manifest="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil}\n")
    assert world.call().retry_after
    assert "evil" not in names(world)
    assert world.history() == [(1, "deployed"), (2, "failed")]


def test_failed_atomic_installation_is_undone_once(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {**TWO, "z.yaml": REJECTED})
    world.proxy(options={"atomic": True})
    assert world.call().retry_after
    assert world.history() == [(1, "failed")]
    assert world.call().retry_after is None
    assert names(world) == set()
    assert json.loads(world.helm("list", "--output", "json")) == []
    assert "the installation is undone" in world.condition("HelmReleaseReady")["message"]
    before = world.read()
    world.call()
    world.call(resync=True)
    assert world.read() == before
    assert names(world) == set()
    world.proxy(values="x: 1\n", options={"atomic": True})
    assert world.call().retry_after, "other values are another attempt"
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.call()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None
    assert names(world) == set()


def test_deletion_waits_until_objects_are_gone_on_request(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", TWO)
    world.proxy(options={"wait": True})
    world.call()
    held = Key(world.releases, "a")
    world.client.patch(CONFIG_MAP, held, {"metadata": {"finalizers": ["example.com/hold"]}})
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    for _ in range(2):
        assert world.call().retry_after
        assert f"waiting for the deletion of ConfigMap {held}" in world.condition("HelmReleaseReady")["message"]
        assert names(world) == {"a"}
    world.client.patch(CONFIG_MAP, held, {"metadata": {"finalizers": None}})
    world.call()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None


def test_name_is_generated_once_and_history_kept(helm_world: HelmWorld) -> None:
    world = helm_world
    world.proxy(releaseName=None, options={"uninstall": {"keepHistory": True}})
    assert world.call().reply is not None  # the chart is not in storage
    name = dig(world.read(), "spec.releaseName")
    assert name.startswith("web-")
    assert dig(world.read(), ("metadata", "annotations", RELEASE_NAME_GENERATED)) == "true"
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    assert world.call().retry_after is None
    assert dig(world.read(), "spec.releaseName") == name
    assert json.loads(world.helm("list", "--output", "json"))[0]["name"] == name
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.call()
    assert names(world) == set()
    assert json.loads(world.helm("list", "--uninstalled", "--output", "json"))[0]["status"] == "uninstalled"


def test_release_whose_record_is_too_large_is_left_as_it_is(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy()
    world.call()
    noise = base64.b64encode(random.Random(1).randbytes(500_000)).decode()
    large = {f"{name}.yaml": MAP.format(name).replace("{x:", f'{{y: "{noise[n:]}", x:') for n, name in enumerate("abc")}
    world.chart("2.0.0", large)
    world.proxy(version="2.0.0")
    assert world.call().retry_after
    assert "too large" in world.condition("HelmReleaseReady")["message"]
    assert world.history() == [(1, "deployed")]
    assert names(world) == {"a"}
    assert world.call().retry_after
    world.chart("3.0.0", TWO)
    world.proxy(version="3.0.0")
    assert world.call().retry_after is None, world.read()
    assert names(world) == {"a", "b"}
    assert world.history() == [(1, "superseded"), (2, "deployed")]


def test_values_come_from_secrets_and_config_maps(helm_world: HelmWorld) -> None:
    world = helm_world
    world.client.create(SECRET, objects.secret("low", world.namespace, **{"values.yaml": "x: hidden-low\nk: {z: 1}\n"}))
    data = {"high": "k: {w: 2}\n"}
    world.client.create(CONFIG_MAP, objects.manifest(CONFIG_MAP, "high", world.namespace, data=data))
    world.chart("1.0.0", {"a.yaml": MAP.format("a"), "bad.yaml": "{{ if .Values.bad }}{{ fail .Values.x }}{{ end }}"})
    sources = [
        {"kind": "Secret", "name": "low"},
        {"kind": "ConfigMap", "name": "high", "key": "high"},
        {"kind": "Secret", "name": "none", "optional": True},
    ]
    world.proxy(valuesFrom=sources, values="v: 3\n")
    assert world.call().retry_after is None, world.read()
    stored = json.loads(world.helm("get", "values", "web", "--output", "json"))
    assert stored == {"x": "hidden-low", "k": {"z": 1, "w": 2}, "v": 3}
    world.proxy(valuesFrom=sources, values="bad: true\n")
    assert world.call().retry_after
    assert world.condition("HelmReleaseReady")["status"] == "False"
    assert "hidden-low" not in json.dumps(world.read()["status"])
    world.proxy(valuesFrom=[{"kind": "Secret", "name": "none"}])
    world.call()
    assert "values.yaml of Secret none does not exist" in world.condition("HelmReleaseReady")["message"]


def test_uninstallation_quotes_no_secret_values(helm_world: HelmWorld) -> None:
    world = helm_world
    source = objects.secret("hidden", world.namespace, **{"values.yaml": "x: hidden-word\n"})
    world.client.create(SECRET, source)
    container = "{name: a, image: registry.example.com/a}"
    hook = (
        "apiVersion: batch/v1\nkind: Job\n"
        'metadata: {name: "{{ .Values.x }}", annotations: {helm.sh/hook: pre-delete}}\n'
        f"spec: {{template: {{spec: {{restartPolicy: Never, containers: [{container}]}}}}}}\n"
    )
    world.chart("1.0.0", {"a.yaml": MAP.format("a"), "hook.yaml": hook})
    world.proxy(valuesFrom=[{"kind": "Secret", "name": "hidden"}])
    assert world.call().retry_after is None, world.read()
    world.client.delete(SECRET, Key(world.namespace, "hidden"))
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    assert world.call().retry_after
    condition = world.condition("HelmReleaseReady")
    assert f"Job {world.releases}/…" in condition["message"], condition
    assert "hidden-word" not in json.dumps(world.read()["status"]["conditions"])


def test_unreachable_cluster_holds_the_deletion_until_the_cluster_is_gone(helm_world: HelmWorld) -> None:
    world = helm_world
    world.chart("1.0.0", {"a.yaml": MAP.format("a")})
    world.proxy()
    world.call()
    world.client.delete(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo"))
    world.secret(b"no kubeconfig")
    assert world.call().retry_after
    assert world.condition("ClusterAvailable")["reason"] == "GetKubeconfigFailed"
    objects.remove(world.client, CLUSTER, world.cluster_key)
    world.call()
    assert world.client.find(HELM_RELEASE_PROXY, Key(world.namespace, "web-demo")) is None
    assert names(world) == {"a"}


LOCATIONS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: locations.nulls.example.dev}
spec:
  group: nulls.example.dev
  scope: Namespaced
  names: {kind: Location, plural: locations}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [bucket]
            properties:
              bucket: {type: string}
              prefix: {type: string}
              config: {type: object, additionalProperties: {type: string}}
              validation: {type: string, nullable: true, default: often}
"""
LOCATION = """
apiVersion: nulls.example.dev/v1
kind: Location
metadata: {name: backup}
spec: {bucket: {{ .Values.bucket }}, prefix: , config: , validation: null}
"""


def test_null_fields_of_a_custom_resource_are_left_out(helm_world: HelmWorld) -> None:
    """The API server leaves them out when the helm program creates the object, but not at a server-side apply."""
    world = helm_world
    kind = Resource("nulls.example.dev", "v1", "Location", "locations")
    try:
        world.chart("1.0.0", {"a.yaml": LOCATION}, crds__a=LOCATIONS)
        world.proxy(values="bucket: one\n")
        world.call()
        assert world.condition("Ready")["status"] == "True", world.read()
        live = world.client.get(kind, Key(world.releases, "backup"))
        assert live["spec"] == {"bucket": "one", "validation": None}
        world.call(resync=True)
        assert world.client.get(kind, Key(world.releases, "backup")) == live
        world.proxy(values="bucket: two\n")
        world.call()
        assert world.client.get(kind, Key(world.releases, "backup"))["spec"]["bucket"] == "two"
        world.proxy(values="bucket:\n")
        world.call()
        assert "spec.bucket: Required value" in world.condition("Ready")["message"]
    finally:
        world.client.delete(CRD, Key("", "locations.nulls.example.dev"))
