"""The latency of one tenant alone, and beside another one with fourteen slow servers or six endless charts.

`addon_apply` is a process of its own with eight threads. One figure is the time of an upgrade: from the changed Cluster
to the addon that is Ready, rendered and applied.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from events.delivery import Deliver, HttpDelivery, InProcessDelivery
from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.api.resources import NAMESPACE
from shared.clients import Clients
from shared.event import Event
from shared.kube import Client
from shared.runtime import Answer
from tests.support.hostile import kubeconfig as kubeconfig_of
from tests.support.releases import config_map, write_release
from tests.support.swept_addons import SweptAddons
from tests.support.tenants import SlowServer, tenant_with_clusters

from .parts import management, storage

ROUNDS = 20
ENDLESS = '{{ define "f" }}' + "{{ range until 1000 }}" * 4 + "{{ end }}" * 4 + '{{ end }}{{ include "f" . }}'


def run() -> None:
    with management() as (client, _), tempfile.TemporaryDirectory() as name, storage(Path(name)):
        folder = Path(name)
        os.environ |= {"RELEASE_SOURCE": name, "CAPI_FUNCTIONS_DATA": name}
        kubeconfig = Path(os.environ["KUBECONFIG"])
        data = kubeconfig.read_bytes()
        neighbours: dict[str, Callable[[Deliver], AbstractContextManager[None]]] = {
            "alone": lambda _deliver: nullcontext(),
            "beside slow servers": lambda deliver: slow_servers(client, deliver),
            "beside endless charts": lambda deliver: endless_charts(client, deliver, folder, data),
        }
        print(f"{'good tenant':<24} {'median ms':>10} {'p95 ms':>8}")
        for number, (what, neighbour) in enumerate(neighbours.items()):
            with functions(client, kubeconfig, folder) as deliver:
                create_namespace(client, f"good-{number}")
                good = SweptAddons(client, f"good-{number}", data, deliver)
                upgrade(good, folder, f"v{number + 1}00")  # connects, and starts a worker
                with neighbour(deliver):
                    time.sleep(3.0)  # until the neighbour holds what it can
                    times = sorted(upgrade(good, folder, f"v{number + 1}{one:02}") for one in range(1, ROUNDS + 1))
                    deliver.server.kill()
            median = statistics.median(times) * 1000
            print(f"{what:<24} {median:10.0f} {times[int(0.95 * len(times))] * 1000:8.0f}", flush=True)


class ServedFunction:
    """Delivers to `addon_apply` in its own process, and to the other functions in this one."""

    def __init__(self, client: Client, server: FunctionsServer) -> None:
        self.server = server
        self._alone = HttpDelivery(server.url, single=True, timeout=(2.0, 120.0))
        self._others = InProcessDelivery(catalog.handler, Clients(client))

    def __call__(self, name: str, event: Event) -> Answer:
        return (self._alone if name == "addon_apply" else self._others)(name, event)


@contextmanager
def functions(client: Client, kubeconfig: Path, folder: Path) -> Iterator[ServedFunction]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "THREADS": "8"}
    server = FunctionsServer(environment, folder / "log", function="addon_apply")
    server.start()
    try:
        yield ServedFunction(client, server)
    finally:
        server.kill()
        server.close()


def upgrade(good: SweptAddons, folder: Path, version: str) -> float:
    """Returns the seconds of an upgrade whose release was fetched before."""
    name = write_release(folder, version, [config_map(f"map-{version}", "1", good.namespace)])
    begun = time.perf_counter()
    good.apply_class(name)
    good.until(partial(good.ready, name), name)
    return time.perf_counter() - begun


@contextmanager
def slow_servers(client: Client, deliver: Deliver) -> Iterator[None]:
    create_namespace(client, "slow-servers")
    with SlowServer(9.0) as server:
        ca = {"certificate-authority-data": server.ca_data}
        kubeconfigs = [kubeconfig_of(server.url, {"token": f"user-{number}"}, **ca) for number in range(14)]
        hostile = tenant_with_clusters(client, "slow-servers", kubeconfigs, "test-stack-1-36-v999")
        with hostile.sending(deliver):
            yield


@contextmanager
def endless_charts(client: Client, deliver: Deliver, folder: Path, kubeconfig: bytes) -> Iterator[None]:
    create_namespace(client, "endless-charts")
    name = write_release(folder, "v999", templates={"all.yaml": ENDLESS})
    hostile = tenant_with_clusters(client, "endless-charts", [kubeconfig] * 6, name)
    wanted = deliver("addon_apply", hostile.events[0]).reply
    assert wanted
    deliver("release_assets", wanted)
    with hostile.sending(deliver):
        yield


def create_namespace(client: Client, name: str) -> None:
    client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
