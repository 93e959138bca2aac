"""Preconditions of writes: an object that has changed since it was read is read again, and neither deleted nor
overwritten if it belongs to another owner now.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from functions.addon_cleanup.leftovers import Leftovers
from functions.addon_cleanup.removal import RemoveLeftovers
from shared.api.names import OWNED_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET, SERVICE
from shared.clients import Clients, ClusterClients
from shared.effects import Delete
from shared.event import change_event
from shared.kube import ApiError, Client, Conflict, Key, connect, dig, key_of, owned_by
from tests.support import objects
from tests.support.api_proxy import Fault, Proxy, Request, answering
from tests.support.demo_cluster import ADDON
from tests.support.releases import STACK, config_map, write_release
from tests.support.world import World

NOT_OURS = {"metadata": {"labels": {OWNED_LABEL: None}}}
TO_BE_KEPT = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}
BUSY, BUSIER = ({"metadata": {"annotations": {"busy": how}}} for how in ("yes", "very"))


def before_each_deletion(proxy: Proxy, happens: Callable[[int], None]) -> None:
    """Calls `happens` with the number of deletions so far before each deletion."""
    deletions = 0

    def fault(request: Request) -> Fault | None:
        nonlocal deletions
        if request.method == "DELETE":
            deletions += 1
            happens(deletions - 1)
        return None

    proxy.fault = fault


def upgraded(world: World, proxy: Proxy, *patches: dict[str, object], recreate: bool = False) -> None:
    """Upgrades to a release that drops or recreates an object, and patches it before each of the first deletions."""
    world.secret(proxy.kubeconfig)
    policy = {"recreate": "true"} if recreate else None
    world.cluster(
        write_release(world.releases, "v1", [world.map("a"), world.immutable_map("frozen", "1")]), policy=policy
    )
    world.settle()

    def happens(before: int) -> None:
        if before < len(patches):
            world.client.patch(CONFIG_MAP, Key(world.namespace, "frozen"), patches[before])

    before_each_deletion(proxy, happens)
    after = [world.map("a"), *([world.immutable_map("frozen", "2")] if recreate else [])]
    world.cluster(write_release(world.releases, "v2", after), policy=policy)
    world.settle()


def requests_about(name: str, proxy: Proxy) -> list[str]:
    return [request.method for request in proxy.seen if request.path.endswith(f"/{name}")]


def test_object_that_nobody_changed_is_pruned_without_a_read(world: World, proxy: Proxy) -> None:
    upgraded(world, proxy)
    assert world.names() == ["a"]
    assert requests_about("frozen", proxy) == ["PATCH", "DELETE"]


def test_object_with_a_status_or_to_be_kept_is_read_before_it_is_pruned(world: World, proxy: Proxy) -> None:
    world.secret(proxy.kubeconfig)
    kept = world.map("kept")
    kept["metadata"] |= TO_BE_KEPT["metadata"]
    metadata = {"name": "service", "namespace": world.namespace}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    world.cluster(write_release(world.releases, "v1", [world.map("a"), kept, service]))
    world.settle()
    world.cluster(write_release(world.releases, "v2", [world.map("a")]))
    world.settle()
    assert world.names() == ["a", "kept"]
    assert requests_about("kept", proxy) == ["PATCH", "GET"]
    assert requests_about("service", proxy) == ["PATCH", "GET", "DELETE"]


@pytest.mark.parametrize("patch", [NOT_OURS, TO_BE_KEPT], ids=["not ours", "to be kept"])
def test_prune_keeps_an_object_that_changed_after_it_was_applied(
    world: World, proxy: Proxy, patch: dict[str, object]
) -> None:
    upgraded(world, proxy, patch)
    assert world.names() == ["a", "frozen"]
    assert requests_about("frozen", proxy) == ["PATCH", "DELETE", "GET"]
    assert dig(world.addon(), "status.ready") is True


def test_prune_keeps_an_object_that_lost_our_label_after_the_read(world: World, proxy: Proxy) -> None:
    upgraded(world, proxy, BUSY, NOT_OURS)
    assert world.names() == ["a", "frozen"]
    assert requests_about("frozen", proxy) == ["PATCH", "DELETE", "GET", "DELETE", "GET"]
    assert dig(world.addon(), "status.ready") is True


def test_prune_reads_a_changed_object_again(world: World, proxy: Proxy) -> None:
    upgraded(world, proxy, BUSY, BUSIER)
    assert world.names() == ["a"]
    assert requests_about("frozen", proxy) == ["PATCH", "DELETE", "GET", "DELETE", "GET", "DELETE"]


def test_recreate_keeps_an_object_that_lost_our_label_after_the_read(world: World, proxy: Proxy) -> None:
    upgraded(world, proxy, NOT_OURS, recreate=True)
    assert world.read("frozen")["data"] == {"k": "1"}
    assert "it belongs to another owner, so it is kept" in world.condition("HelmChartApplied")["message"]


def test_recreate_reads_a_changed_object_again(world: World, proxy: Proxy) -> None:
    upgraded(world, proxy, BUSY, recreate=True)
    assert world.read("frozen")["data"] == {"k": "2"}


# -- the Secret with the manifests -----------------------------------------------------------------------------


def test_manifest_secret_of_another_owner_is_neither_written_nor_read_nor_deleted(world: World) -> None:
    theirs = objects.secret(f"{ADDON}-manifests", world.namespace, value=b"theirs")
    before = world.client.apply(SECRET, theirs, manager="user")
    world.secret()
    for version in ("v1", "v2"):
        world.cluster(write_release(world.releases, version, [world.map("a", version)]))
        assert world.settle().retry_after is None
    assert "is not owned by ClusterAddon" in world.event_messages()["ManifestNotKept"]
    assert dig(world.addon(), "status.history", []) == []
    key = world.addon_key
    # As an earlier version of this project may have left it.
    history = [{"clusterStack": f"{STACK}-v1", "version": "v1", "digest": "x", "at": "2026-01-01T00:00:00Z"}]
    world.client.patch(CLUSTER_ADDON, key, {"status": {"history": history}}, subresource="status")
    annotation = {"capi-functions.dev/rollback-from": f"{STACK}-v2"}
    world.client.patch(CLUSTER_ADDON, key, {"metadata": {"annotations": annotation}})
    world.settle()
    condition = world.condition("HelmChartApplied")
    assert (condition["reason"], "is not owned by" in condition["message"]) == ("RollbackFailed", True)
    addon = world.addon()
    for kind, name in ((CLUSTER, "demo"), (CLUSTER_ADDON, ADDON)):
        world.client.delete(kind, Key(world.namespace, name))
    world.call("addon_apply", change_event(addon, "update", source="/test", reference=True))
    assert world.client.find(CLUSTER_ADDON, key) is None
    assert world.client.get(SECRET, Key(world.namespace, f"{ADDON}-manifests"))["metadata"] == before["metadata"]


def test_own_manifest_secret_is_deleted_with_the_addon(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    addon, key = world.addon(), Key(world.namespace, f"{ADDON}-manifests")
    assert owned_by(world.client.get(SECRET, key), addon)
    for kind, name in ((CLUSTER, "demo"), (CLUSTER_ADDON, ADDON)):
        world.client.delete(kind, Key(world.namespace, name))
    world.call("addon_apply", change_event(addon, "update", source="/test", reference=True))
    assert world.client.find(SECRET, key) is None


DENIAL = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "webhook says no"}
"""The answer of an admission webhook, which chooses the status of its denial."""


# -- deletions by uid ------------------------------------------------------------------------------------------


def test_object_that_was_replaced_counts_as_deleted(management: Client, namespace: str) -> None:
    live = management.create(CONFIG_MAP, config_map("a", namespace=namespace))
    earlier = {**live, "metadata": {**live["metadata"], "uid": "another"}}
    Delete(CONFIG_MAP, earlier).execute(Clients(management))
    assert management.find(CONFIG_MAP, key_of(live)) is not None


def test_refused_deletion_is_an_error_though_it_is_a_conflict(proxy: Proxy, namespace: str) -> None:
    client = connect.workload(proxy.kubeconfig)
    live = client.create(CONFIG_MAP, config_map("a", namespace=namespace))
    proxy.fault = lambda request: answering(409, DENIAL) if request.method == "DELETE" else None
    with pytest.raises(ApiError, match="webhook says no") as caught:
        Delete(CONFIG_MAP, live).execute(Clients(client))
    assert not isinstance(caught.value, Conflict)


def test_refused_deletion_of_a_leftover_is_reported_though_it_is_a_conflict(proxy: Proxy, namespace: str) -> None:
    client = connect.workload(proxy.kubeconfig)
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    live = client.create(SERVICE, objects.manifest(SERVICE, "a", namespace, spec=spec))
    removal = RemoveLeftovers(ClusterClients(client), Leftovers([live]))
    proxy.fault = lambda request: answering(409, DENIAL) if request.method == "DELETE" else None
    assert removal.execute(Clients(client)) == [f"DELETE Service {namespace}/a: webhook says no"]
    recreated = {**live, "metadata": {**live["metadata"], "uid": "another"}}
    removal = RemoveLeftovers(ClusterClients(client), Leftovers([recreated]))
    assert removal.execute(Clients(client)) == []
