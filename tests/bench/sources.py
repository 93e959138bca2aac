"""Sources of events on the same changes: Knative's adapters and our forwarder before its broker, the forwarder alone.

They take turns, as figures of a busy machine compare within one run only. `BENCH_SOURCES` is the number of objects that
change at once (1000). Knative's in-memory dispatcher needs port 8080.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from functions import catalog
from infra.local import crds
from infra.local.functions_server import FunctionsServer
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, NAMESPACE
from shared.event import PING, Event
from shared.kube import Key
from shared.runtime import Answer
from shared.triggers import Triggers
from tests.support.event_receiver import EventReceiver
from tests.support.event_sources import Adapters, EventSource, ForwarderProcess
from tests.support.knative_broker import KnativeBroker, install, knative_broker
from tests.support.objects import manifest
from tests.support.ports import free_port

from .auditing import Plane, planes
from .parts import since

OBJECTS = int(os.environ.get("BENCH_SOURCES", "1000"))
TURNS, RATE, SECONDS = 3, 50, 6
QUIET = 4.0
"""Seconds without progress after which the rest counts as lost."""
GIVES_UP = 120.0
"""Seconds after which what a sweep has not repaired counts as not repaired."""
CLASS = "test-stack-1-36-v1"
CHANGED = "capi-functions.dev/wait-timeout"
"""An annotation whose change starts `addon_apply`."""
ADAPTERS, FORWARDER, ALONE = SOURCES = ("adapters, broker", "forwarder, broker", "forwarder alone")


def run() -> None:
    latencies = {source: Latency() for source in SOURCES}
    with _chain("addon_apply") as chain:
        _latency(chain, latencies)
    for source, latency in latencies.items():
        print(f"{source:<18} {latency}{latency.ratio(latencies[FORWARDER])}", flush=True)
    with _chain("addon_create", "sweep") as chain:
        _settle(chain)


class Chain:
    """A management cluster, Knative's broker in it, and the sources; what is called is at `targets`."""

    def __init__(self, plane: Plane, broker: KnativeBroker, declared: Mapping[str, Triggers], folder: Path) -> None:
        self.plane, self.client, self.broker = plane, plane.client, broker
        self.pool = ThreadPoolExecutor(8)
        self.ingress = f"http://127.0.0.1:{free_port()}"
        self._declared, self._folder = declared, folder

    def source(self, name: str, functions: str) -> EventSource:
        """Returns a source; the forwarder alone calls `functions`."""
        before = (self.client, self.plane.kubeconfig, self._folder)
        if name == ALONE:
            return ForwarderProcess(*before, self.ingress, self._declared, functions=functions)
        kind: type[EventSource] = Adapters if name == ADAPTERS else ForwarderProcess
        return kind(*before, self.broker.sink, self._declared)

    def wire(self, url: str) -> None:
        """Makes the broker call functions at `url`."""
        self.broker.wire(self._declared, lambda service: f"{url}/{service.replace('-', '_')}")
        self.broker.start()

    def environment(self, sink: str) -> dict[str, str]:
        profile = {"CAPI_FUNCTIONS_PROFILES": "addons", "LOG_LEVEL": "WARNING"}
        return {**os.environ, **profile, "KUBECONFIG": str(self.plane.kubeconfig), "K_SINK": sink}

    def server(self, sink: str, name: str) -> FunctionsServer:
        server = FunctionsServer(self.environment(sink), self._folder / f"{name}.log")
        server.start()
        return server

    def create(self, namespace: str, *, addons: bool) -> list[Key]:
        """Creates Clusters without a class, with their ClusterAddons if these are wanted."""
        self.client.create(NAMESPACE, manifest(NAMESPACE, namespace))
        keys = [Key(namespace, f"c{number}") for number in range(OBJECTS)]

        def create(key: Key) -> None:
            cluster = self.client.create(CLUSTER, manifest(CLUSTER, key.name, key.namespace, spec={"paused": False}))
            if addons:
                self.client.create(CLUSTER_ADDON, manifest(CLUSTER_ADDON, addon_of(cluster).name, key.namespace))

        list(self.pool.map(create, keys))
        return keys

    def remove(self, namespace: str) -> None:
        for resource in (CLUSTER, CLUSTER_ADDON):
            self.client.request("DELETE", resource.path(namespace), subject=namespace)


@contextmanager
def _chain(*functions: str) -> Iterator[Chain]:
    declared = {name: triggers for name, triggers in catalog.triggers().items() if name in functions}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        [plane] = stack.enter_context(planes(Path(folder), "management"))
        crds.install(plane.client, crds.load())
        install(plane.client)
        broker = stack.enter_context(knative_broker(plane.client, plane.directory, Path(folder)))
        yield Chain(plane, broker, declared, Path(folder))


# -- latency and throughput --------------------------------------------------------------------------------------


@dataclass
class Latency:
    """Milliseconds from the request that changes an object to the call of the function."""

    steady: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    """Seconds until the functions were called for all of the objects that changed at once."""
    lost: int = 0

    def __str__(self) -> str:
        return (
            f"{RATE} changes/s: p50 {self.quantile(0.5):.1f} ms, p99 {self.quantile(0.99):.1f} ms; {OBJECTS} at once: "
            f"{statistics.median(self.burst):.1f} s, {OBJECTS / statistics.median(self.burst):.0f}/s; lost {self.lost}"
        )

    def quantile(self, share: float) -> float:
        return sorted(self.steady)[int(len(self.steady) * share)] * 1000

    def ratio(self, other: Latency) -> str:
        """Returns how this compares with another source in the same run."""
        p50, p99 = (self.quantile(share) / other.quantile(share) for share in (0.5, 0.99))
        burst = statistics.median(self.burst) / statistics.median(other.burst)
        return f"  (ratios to {FORWARDER}: {p50:.2f}, {p99:.2f}, {burst:.2f})"


def _latency(chain: Chain, latencies: Mapping[str, Latency]) -> None:
    arrived: dict[str, float] = {}

    def respond(_function: str, event: Event) -> Answer:
        value = (event.object or {}).get("metadata", {}).get("annotations", {}).get(CHANGED)
        if event.kind == CLUSTER.kind and value is not None:
            arrived.setdefault(value, time.perf_counter())
        return Answer(204)

    keys = chain.create("latency", addons=True)
    values = iter(range(1, 10**9))
    sent: dict[str, float] = {}

    def change(key: Key) -> str:
        value = str(next(values))
        sent[value] = time.perf_counter()
        chain.client.patch(CLUSTER, key, {"metadata": {"annotations": {CHANGED: value}}})
        return value

    with EventReceiver(respond) as receiver:
        chain.wire(receiver.url)
        for _ in range(TURNS):
            for name in SOURCES:
                source = chain.source(name, receiver.url)
                source.start()
                _until_still(lambda: len(receiver.received))
                began = time.perf_counter()
                steady = []
                for number in range(RATE * SECONDS):
                    steady.append(change(keys[number % len(keys)]))
                    time.sleep(max(0.0, began + (number + 1) / RATE - time.perf_counter()))
                _until_still(lambda: len(receiver.received))
                began = time.perf_counter()
                burst = list(chain.pool.map(change, keys))
                _until_still(lambda: len(receiver.received))
                found = latencies[name]
                found.steady += [arrived[value] - sent[value] for value in steady if value in arrived]
                found.burst.append(max(arrived.get(value, began) for value in burst) - began)
                found.lost += sum(value not in arrived for value in [*steady, *burst])
                source.kill()


# -- work that is done, and lost ---------------------------------------------------------------------------------


def _settle(chain: Chain) -> None:
    """Gives all Clusters a class, and prints when their ClusterAddons exist, and how many a sweep had to bring."""
    with ExitStack() as stack:
        brokered, alone = chain.server(chain.broker.sink, "brokered"), chain.server(chain.ingress, "alone")
        for server in (brokered, alone):
            stack.callback(server.close)
        chain.wire(brokered.url)
        for killed in (False, True):
            print(f"{OBJECTS} Clusters get a class{', the source is restarted when half have it' if killed else ''}:")
            for name in SOURCES:
                source = chain.source(name, alone.url)
                stack.callback(source.kill)
                print(f"{name:<18} {_settled(chain, name, source, killed=killed)}", flush=True)
                source.kill()


def _settled(chain: Chain, name: str, source: EventSource, *, killed: bool) -> str:
    namespace = re.sub(r"\W+", "-", f"{name} {killed}".lower())
    keys = chain.create(namespace, addons=False)
    source.start()
    before, began = chain.plane.tally(), time.perf_counter()
    half, spec = len(keys) // 2, {"topology": {"classRef": {"name": CLASS}}}

    def change(key: Key) -> None:
        chain.client.patch(CLUSTER, key, {"spec": spec})

    def addons() -> int:
        page = chain.client.request("GET", CLUSTER_ADDON.path(namespace), query={"limit": "1"}, subject=namespace)
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    list(chain.pool.map(change, keys[:half]))
    changing = [chain.pool.submit(change, key) for key in keys[half:]]
    if killed:
        source.kill()
        source.start()
    for each in changing:
        each.result()
    seconds, found = _until_still(addons) - began, addons()
    requests = (chain.plane.tally() - before).total
    result = f"{found} ClusterAddons after {seconds:.1f} s, {requests} requests; lost {OBJECTS - found}"
    if found < OBJECTS:
        began = time.perf_counter()
        headers, body = Event(type=PING, source="/bench", id=namespace).to_http()
        urllib3.request("POST", source.sink, headers=headers, body=body, timeout=10.0, retries=False)
        while addons() < OBJECTS and since(began) < GIVES_UP:
            time.sleep(0.05)
        result += f", of which a sweep repaired {addons() - found} in {since(began):.1f} s"
    chain.remove(namespace)
    return result


def _until_still(progress: Callable[[], int]) -> float:
    """Waits until nothing has progressed for a while; returns the time of the last progress."""
    last, at = progress(), time.perf_counter()
    while since(at) < QUIET:
        time.sleep(0.05)
        if (now := progress()) != last:
            last, at = now, time.perf_counter()
    return at
