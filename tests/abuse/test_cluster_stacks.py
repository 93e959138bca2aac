"""Hostile sources of releases, ClusterStacks, Clusters and events, against a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions import catalog
from infra.local import crds
from shared.api.conditions import rfc3339
from shared.api.names import ADDON_PREFIX
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource, connect
from shared.kube.crds import CRD
from tests.support import objects
from tests.support.releases import STACK
from tests.support.stacks import TEMPLATE, TOY, TOY_TEMPLATE, Stacks, definition

FOREIGN = Resource("toys.example.com", "v1", "ToyCluster", "toyclusters")


@pytest.fixture(scope="module")
def foreign_kinds(kubeconfig: Path) -> Iterator[None]:
    """Applies the CRDs of further kinds."""
    client = connect.from_kubeconfig(str(kubeconfig))
    brought = [definition(FOREIGN)]
    crds.install(client, brought)
    yield
    for crd in brought:
        client.delete(CRD, Key("", crd["metadata"]["name"]))
    client.close()


# -- sources -----------------------------------------------------------------------------------------------------


def offer(folder: Path, count: int, number: int = 1) -> None:
    """Offers a release of each of `count` channels."""
    for channel in range(count):
        (folder / f"{STACK}-v{number}-c{channel:05}-x").mkdir(exist_ok=True)


def test_source_of_many_channels_gets_fifty_releases_and_a_condition(stacks: Stacks) -> None:
    offer(stacks.folder, 2_000)
    stacks.stack(channel="custom", versions=["v7"])
    stacks.look_at_stack()
    stacks.look_at_stack()
    names = stacks.names(CLUSTER_STACK_RELEASE)
    assert (len(names), f"{STACK}-v7" in names) == (50, True)
    condition = stacks.of_stack("ClusterStackReleasesSynced")
    assert condition["reason"] == "TooManyReleases"
    assert "at most 50 ClusterStackReleases, and 1951 more" in condition["message"]
    # The newest are wanted now, and a release that a Cluster uses stays.
    used = next(name for name in names if name != f"{STACK}-v7")
    stacks.cluster(used)
    offer(stacks.folder, 60, number=2)
    for _ in range(3):
        stacks.look_at_stack()
        for release in stacks.client.list(CLUSTER_STACK_RELEASE, stacks.namespace):
            if "deletionTimestamp" in release["metadata"]:
                stacks.look_at(release)
    names = stacks.names(CLUSTER_STACK_RELEASE)
    assert (len(names), used in names, f"{STACK}-v7" in names) == (50, True, True)
    assert sum(name.startswith(f"{STACK}-v2-") for name in names) == 48
    stack = stacks.get(CLUSTER_STACK, "stack")
    assert len(stack["status"]["summary"]) == 50


# -- references --------------------------------------------------------------------------------------------------


def test_release_object_of_a_provider_that_somebody_made_is_not_taken_over(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    victim = stacks.apply(TOY, tag, spec={"images": ["mine"]})
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": {"metadata": {"labels": {"a": "b"}}}})
    reference = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}
    stacks.stack(noProvider=False, providerRef=reference)
    stacks.look_at_stack()
    assert "already exists" in stacks.of_stack("ProviderClusterStackReleasesSynced")["message"]
    assert stacks.get(TOY, tag) == victim


@pytest.mark.parametrize("kind", [TEMPLATE, FOREIGN], ids=["template of a provider", "kind of no provider"])
def test_cluster_adopts_and_deletes_no_object_that_is_not_an_infrastructure_cluster(
    stacks: Stacks, kind: Resource, foreign_kinds: None
) -> None:
    victim = stacks.apply(kind, "victim", spec={})
    reference = {"apiGroup": kind.group, "kind": kind.kind, "name": "victim"}
    stacks.apply(CLUSTER, "hostile", spec={"infrastructureRef": reference})
    for _ in range(4):
        stacks.call("cluster", change_event(stacks.get(CLUSTER, "hostile"), "update", source="/test"))
    assert stacks.get(kind, "victim") == victim
    stacks.client.delete(CLUSTER, Key(stacks.namespace, "hostile"))
    for _ in range(6):
        if (cluster := stacks.find(CLUSTER, "hostile")) is None:
            break
        stacks.call("cluster", change_event(cluster, "update", source="/test"))
    assert stacks.find(CLUSTER, "hostile") is None
    assert stacks.get(kind, "victim") == victim


# -- events ------------------------------------------------------------------------------------------------------


def made_up(namespace: str, name: str, uid: str) -> Object:
    metadata = {"uid": uid, "creationTimestamp": rfc3339(datetime.now(UTC)), "resourceVersion": "1"}
    return objects.manifest(
        CLUSTER, name, namespace, metadata=metadata, spec={"topology": {"classRef": {"name": f"{STACK}-v1"}}}
    )


def deliver(clients: Clients, management: Client, forged: Object) -> Object | None:
    """Delivers a made-up event, and the events that follow from it; returns the ClusterAddon at the end."""
    catalog.handler("addon_create")(clients, change_event(forged, "add", source="/test"))
    namespace, name = forged["metadata"]["namespace"], forged["metadata"]["name"]
    for _ in range(4):
        addon = management.find(CLUSTER_ADDON, Key(namespace, f"{ADDON_PREFIX}{name}"))
        if addon is None:
            break
        change = "update" if "deletionTimestamp" in addon["metadata"] else "add"
        catalog.handler("addon_apply")(clients, change_event(addon, change, source="/test"))
    return addon


def test_made_up_event_leaves_no_addon(clients: Clients, management: Client, namespace: str) -> None:
    forged = made_up(namespace, "ghost", "00000000-0000-0000-0000-000000000000")
    assert deliver(clients, management, forged) is None


def test_made_up_uid_leaves_no_addon(clients: Clients, management: Client, namespace: str) -> None:
    management.create(CLUSTER, objects.manifest(CLUSTER, "plain", namespace, spec={}))
    forged = made_up(namespace, "plain", "00000000-0000-0000-0000-000000000000")
    assert deliver(clients, management, forged) is None


def test_addon_without_owner_waits_for_its_cluster(clients: Clients, management: Client, namespace: str) -> None:
    spec = {"clusterRef": {"name": "later", "namespace": namespace}}
    made = management.create(
        CLUSTER_ADDON, objects.manifest(CLUSTER_ADDON, f"{ADDON_PREFIX}later", namespace, spec=spec)
    )
    catalog.handler("addon_apply")(clients, change_event(made, "add", source="/test"))
    assert management.get(CLUSTER_ADDON, Key(namespace, f"{ADDON_PREFIX}later")) == made
