"""What fails is not recorded as applied, and is retried until it succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from shared.kube import Key, Object, Resource, dig
from shared.kube.crds import CRD, await_established
from tests.support.api_proxy import Proxy, answering
from tests.support.releases import STACK, archive, write_release
from tests.support.world import World


def test_failed_object_is_retried_until_it_succeeds(world: World) -> None:
    """A failed object was recorded as applied, and not retried."""
    bad = {**world.map("bad"), "data": {"k": 1}}
    world.upgrade([world.map("good"), bad])
    for _ in range(3):
        assert world.settle().retry_after is not None
        assert world.entries()["ConfigMap", "bad"]["status"] == "not-synced"
        assert world.entries()["ConfigMap", "bad"]["error"]
        assert world.entries()["ConfigMap", "good"]["status"] == "synced"
        assert world.condition("Ready")["status"] == "False"
    world.cluster(write_release(world.releases, "v2", [world.map("good"), world.map("bad")]))
    world.settle()
    assert {entry["status"] for entry in world.entries().values()} == {"synced"}
    assert dig(world.addon(), "status.ready") is True


def test_kind_that_is_served_later_is_applied(world: World) -> None:
    """An object of a kind that was not served yet was neither applied nor recorded."""
    group = f"{world.namespace}.example.com"
    gadgets = Resource(group, "v1", "Gadget", "gadgets")
    gadget: Object = {
        "apiVersion": gadgets.api_version,
        "kind": "Gadget",
        "metadata": {"name": "g", "namespace": world.namespace},
    }
    world.upgrade([world.map("a"), gadget])
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
    assert set(world.entries()) == {("ConfigMap", "a"), ("Gadget", "g")}
    assert dig(world.addon(), "status.ready") is True


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
        assert "not now" in world.entries()["ConfigMap", "goes"]["error"]
        assert dig(world.addon(), "status.ready") is False
    proxy.heal()
    world.settle()
    assert world.names() == ["stays"]
    assert set(world.entries()) == {("ConfigMap", "stays")}
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
    assert set(world.entries()) == {("ConfigMap", "comes"), ("ConfigMap", "stays")}


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
    world.upgrade([world.map("a"), world.map("b")])
    world.cluster(write_release(world.releases, "v2", **BROKEN[broken]))
    assert world.settle().retry_after is not None
    assert dig(world.addon(), "status.ready") is False
    assert world.condition("Ready")["status"] == "False"
    assert dig(world.addon(), "spec.clusterStack") == f"{STACK}-v1"
    assert world.names() == ["a", "b"]


def test_upgrade_does_not_need_the_former_release(world: World) -> None:
    """An upgrade fetched the former release too, and crashed if that failed."""
    world.upgrade([world.map("a"), world.map("b")])
    store = world.clients.releases
    store.delete(f"{STACK}-v1")
    (world.releases / f"{STACK}-v1").rename(world.releases / "gone")
    world.cluster(write_release(world.releases, "v2", [world.map("b", "2")]))
    world.settle()
    assert world.names() == ["b"]
    assert dig(world.addon(), "status.ready") is True
