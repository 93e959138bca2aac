"""Objects per second in the rollout of a large chart, compared to a bare urllib3 client with as many threads."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from shared.addons.owner import OWNER
from shared.applier.desired import desired
from shared.applier.inventory import plan
from shared.applier.policy import Policy
from shared.applier.sync import THREADS, Sync
from shared.clients import Clients, ClusterClients
from shared.kube import MANAGER, Object, connect
from shared.kube.client import APPLY_PATCH
from tests.support.releases import config_map

from .parts import management, median, since

OBJECTS = 400
ROUNDS = 5


def objects(value: str) -> list[Object]:
    return [config_map(f"m{number:03}", value) for number in range(OBJECTS)]


def run() -> None:
    with management():
        client = connect.management()
        workload = ClusterClients(client)
        served = workload.discovery.served()
        ours, bare = [], []
        requests = 0
        for number in range(ROUNDS + 1):
            wanted = desired(objects(f"ours-{number}"), served, OWNER, default_namespace="default")
            before, started = client.requests, time.perf_counter()
            Sync(workload, plan(wanted, [], resumed=False), served, Policy(OWNER)).execute(Clients(client))
            ours.append(since(started))
            requests = client.requests - before
            wanted = desired(objects(f"bare-{number}"), served, OWNER, default_namespace="default")
            started = time.perf_counter()
            apply_bare(wanted)
            bare.append(since(started))
        ours, bare = ours[1:], bare[1:]  # the first round creates, the others change
        ratio = median([b / o for o, b in zip(ours, bare, strict=True)])
        print(f"{OBJECTS} objects changed: {OBJECTS / median(ours):.0f} objects/s in {requests} requests")
        print(
            f"bare urllib3, {THREADS} threads: {OBJECTS / median(bare):.0f} objects/s; ours reaches {ratio:.2f} of it"
        )
        started = time.perf_counter()
        entries = (
            Sync(workload, plan(wanted, [], resumed=False), served, Policy(OWNER)).execute(Clients(client)).entries
        )
        before = client.requests
        Sync(workload, plan(wanted, entries, resumed=True), served, Policy(OWNER)).execute(Clients(client))
        print(f"the same rollout again: {client.requests - before} requests")


def apply_bare(wanted: list[Object]) -> None:
    """Applies the objects with the minimal work: serialise, send, read."""
    configuration = connect.management()
    pool, host = configuration._transport._pool, configuration.host
    headers = {"Content-Type": APPLY_PATCH}
    if token := configuration._transport.credentials.bearer():
        headers["Authorization"] = f"Bearer {token}"

    def apply(obj: Object) -> None:
        name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
        url = f"{host}/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager={MANAGER}&force=true"
        response = pool.request("PATCH", url, body=json.dumps(obj), headers=headers)
        assert response.status in (200, 201), response.data

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(apply, wanted))


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    run()
