"""An event that changes nothing: API requests and CPU, for every function that has a primary object."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from functions import catalog
from infra import local_control_plane
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key
from tests.support.releases import config_map, write_release

from .parts import management, storage

ROUNDS = 200
KEY = Key("default", "demo")


def settle(client: Client, clients: Clients) -> None:
    """Calls the functions until the addons of the Cluster are applied."""
    for _ in range(400):
        for resource in (KIND_CLUSTER, CLUSTER, CLUSTER_ADDON):
            for obj in client.list(resource):
                event = change_event(obj, "update", source="/bench")
                for name, triggers in catalog.triggers().items():
                    if triggers.key(event) is not None:
                        answer = catalog.handler(name)(clients, event)
                        if answer.reply is not None and name == "addon_apply":
                            catalog.handler("release_assets")(clients, answer.reply)
        addon = client.find(CLUSTER_ADDON, Key("default", "cluster-addon-demo"))
        if addon and addon.get("status", {}).get("ready"):
            return
        time.sleep(0.1)
    raise TimeoutError("the bench's cluster did not settle")


def run() -> None:
    with management() as (client, _), tempfile.TemporaryDirectory() as folder, storage(Path(folder)):
        os.environ |= {"CAPI_FUNCTIONS_DATA": folder, "CAPI_FUNCTIONS_OWNER": str(os.getpid())}
        name = write_release(Path(folder), "v1", [config_map("a")])
        metadata = {"name": "demo", "namespace": "default"}
        kind = {"apiVersion": KIND_CLUSTER.api_version, "kind": "KINDCluster", "metadata": metadata}
        client.create(KIND_CLUSTER, kind | {"spec": {"clusterName": "demo"}})
        reference = {"apiGroup": KIND_CLUSTER.group, "kind": "KINDCluster", "name": "demo"}
        spec = {"infrastructureRef": reference, "topology": {"classRef": {"name": name}}}
        cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata}
        client.create(CLUSTER, cluster | {"spec": spec})
        clients = Clients(client)
        settle(client, clients)
        objects = [client.get(KIND_CLUSTER, KEY), client.get(CLUSTER, KEY)]
        objects.append(client.get(CLUSTER_ADDON, Key("default", "cluster-addon-demo")))
        print(f"{'function':<14} {'event about':<14} {'requests':>8} {'CPU ms':>7}")
        for function, triggers in catalog.triggers().items():
            handle = catalog.handler(function)
            for obj in objects:
                event = change_event(obj, "update", source="/bench")
                if triggers.key(event) is None:
                    continue
                handle(clients, event)
                requests, cpu = client.requests, time.process_time()
                for _ in range(ROUNDS):
                    handle(clients, event)
                requests, cpu = client.requests - requests, time.process_time() - cpu
                print(
                    f"{function:<14} {event.kind:<14} {requests / ROUNDS:8.2f} {cpu / ROUNDS * 1000:7.2f}", flush=True
                )
        for plane in (Path(folder) / "clusters").glob("*"):
            local_control_plane.remove(plane)
