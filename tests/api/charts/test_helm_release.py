"""A HelmReleaseProxy installs, upgrades and uninstalls a chart, and the helm program sees the release as its own."""

from __future__ import annotations

import json

from shared.api.resources import CONFIG_MAP, HELM_RELEASE_PROXY
from shared.kube import Key, dig
from tests.support.helm_releases import MAP, HelmWorld

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
