"""What the forwarder delivers for one Cluster: functions are not started by their own writes, nor by a restart."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager

from events.delivery import InProcessDelivery
from events.forwarder import Forwarder
from functions import catalog
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER_ADDON, SECRET
from shared.event import Event
from shared.kube import dig
from shared.runtime import Answer
from tests.support import objects
from tests.support.releases import write_release
from tests.support.until import until
from tests.support.world import World

ROLL_OUT = {
    "addon_create Cluster add",
    "cluster Cluster add",
    "release_assets wanted",
    "addon_apply ClusterAddon add",
    "kubeconfig Cluster update",  # the status is current: answered from the event, without a request
    # Only if the release was not fetched yet:
    "release_assets ClusterAddon wanted",
    "addon_apply ClusterAddon fetched",
}


class Deliveries:
    """Which events were delivered to which functions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: set[str] = set()
        self._inner = InProcessDelivery(catalog.handler, world.clients)

    def __call__(self, function: str, event: Event) -> Answer:
        what = event.change or event.type.rpartition(".")[2]
        self.seen.add(" ".join(filter(None, (function, event.kind, what))))
        return self._inner(function, event)

    @contextmanager
    def forwarding(self) -> Iterator[Forwarder]:
        self.seen.clear()
        forwarder = Forwarder(self.world.client, catalog.triggers(), self, namespace=self.world.namespace)
        forwarder.start()
        try:
            assert forwarder.wait_synced(60)
            yield forwarder
        finally:
            forwarder.stop()


def test_neither_own_writes_of_a_roll_out_nor_a_restart_start_a_function_that_is_done(world: World) -> None:
    value = base64.b64encode(world.kubeconfig).decode()
    secret = objects.secret("demo-kubeconfig", world.namespace)
    secret["metadata"]["labels"] = {CLUSTER_NAME_LABEL: "demo"}
    world.client.create(SECRET, secret | {"data": {"value": value}})
    deliveries = Deliveries(world)
    release = write_release(world.releases, "v1", [world.map(f"m{number}") for number in range(3)])
    with deliveries.forwarding() as forwarder:
        assert not deliveries.seen, "a Secret without its Cluster concerns nobody"
        world.cluster(release, policy={"wait": "false"})
        until(lambda: dig(world.client.find(CLUSTER_ADDON, world.addon_key), "status.ready") is True)
        assert forwarder.drain(60, quiet=1.0)
    assert deliveries.seen <= ROLL_OUT
    with deliveries.forwarding() as forwarder:
        assert forwarder.drain(60, quiet=1.0)
    # The Cluster is not provisioned: `cluster` waits for its topology.
    assert deliveries.seen <= {"cluster Cluster add"}
