"""Many clusters at once through the real forwarder and the functions in one process: time, requests, CPU, memory.

One workload API server stands in for all clusters; each has its own kubeconfig and namespace there.
`BENCH_CLUSTERS` is their number (100).
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import urllib3
import yaml

from infra.local import crds
from infra.local.functions_server import ROOT, FunctionsServer
from infra.local_control_plane import ports
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET
from shared.event import PING, Event
from shared.kube import Key, Object, dig
from tests.support.releases import write_release

from . import charts
from .counting import Requests, Server, by_verb, servers
from .parts import cpu_seconds, rss_mib, since, storage

CLUSTERS = int(os.environ.get("BENCH_CLUSTERS", "100"))
NAMESPACE = "default"
QUIET = 1.5
"""Seconds without CPU use after which all work counts as done."""
_NAME = "CLUSTERNAME"


class Processes:
    """The functions and the forwarder, each a process that can be restarted at its address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        held = ports.hold()
        self._port = held.getsockname()[1]
        held.close()
        environment = {**os.environ, "K_SINK": self.ingress, "LOG_LEVEL": "WARNING"}
        self._environment = environment
        self._functions = FunctionsServer(environment, folder / "functions.log")
        self._forwarder: subprocess.Popen[bytes] | None = None

    @property
    def ingress(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[str, int]:
        found = {"functions": self._functions.process, "forwarder": self._forwarder}
        return {name: process.pid for name, process in found.items() if process is not None}

    def start(self) -> None:
        self._functions.start()
        command = [sys.executable, "-m", "events.forwarder", "--functions", self._functions.url]
        with (self._folder / "forwarder.log").open("ab") as log:
            self._forwarder = subprocess.Popen(
                [*command, "--port", str(self._port)], cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Kills all processes at once, like the failure of a machine."""
        self._functions.kill()
        if self._forwarder is not None:
            self._forwarder.send_signal(signal.SIGKILL)
            self._forwarder.wait()
            self._forwarder = None

    def close(self) -> None:
        self.kill()
        self._functions.close()

    def send(self, event: Event) -> None:
        headers, body = event.to_http()
        assert urllib3.request("POST", self.ingress, headers=headers, body=body, retries=False).status == 202


@dataclass
class Usage:
    """CPU seconds and peak memory of the running processes, sampled twice a second."""

    processes: Processes
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        ended = threading.Event()
        begin = {pid: cpu_seconds(pid) for pid in self.processes.pids.values()}
        used: dict[tuple[str, int], float] = {}  # includes processes that are killed meanwhile

        def sample() -> None:
            for name, pid in self.processes.pids.items():
                try:
                    used[name, pid] = cpu_seconds(pid) - begin.get(pid, 0.0)
                    self.memory[name] = max(self.memory.get(name, 0.0), rss_mib(pid))
                except OSError:
                    continue  # the process was killed

        def watch() -> None:
            while not ended.wait(0.5):
                sample()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            sample()
            for (name, _), seconds in used.items():
                self.cpu[name] = self.cpu.get(name, 0.0) + seconds


class Fleet:
    """The clusters of one management cluster, and measurements of steps with all of them."""

    def __init__(self, management: Server, workload: Server, processes: Processes, rows: list[str]) -> None:
        self.management, self.workload, self.processes, self.rows = management, workload, processes, rows
        self.names = [f"c{number:03}" for number in range(CLUSTERS)]
        self._pool = ThreadPoolExecutor(8)

    # -- what users do -----------------------------------------------------------------------------------------

    def secrets(self) -> None:
        template = yaml.safe_load(self.workload.kubeconfig.read_text())

        def create(name: str) -> None:
            # Different for each cluster, as in reality, so that no client is shared.
            value = base64.b64encode(json.dumps(template | {"preferences": {"of": name}}).encode()).decode()
            metadata = {
                "name": f"{name}-kubeconfig",
                "namespace": NAMESPACE,
                "labels": {CLUSTER_NAME_LABEL: name},
            }
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}}
            self.management.client.create(SECRET, secret)

        list(self._pool.map(create, self.names))

    def create(self, class_name: str) -> None:
        def create(name: str) -> None:
            metadata = {
                "name": name,
                "namespace": NAMESPACE,
                "annotations": {"capi-functions.dev/wait": "false"},  # without controllers nothing becomes ready
            }
            cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata}
            self.management.client.create(CLUSTER, cluster | {"spec": {"topology": {"classRef": {"name": class_name}}}})

        list(self._pool.map(create, self.names))

    def change(self, patch: Object) -> None:
        def change(name: str) -> None:
            self.management.client.patch(CLUSTER, Key(NAMESPACE, name), patch)

        list(self._pool.map(change, self.names))

    # -- what becomes of it ------------------------------------------------------------------------------------

    def wait_ready(self, class_name: str, *, enough: int = CLUSTERS) -> None:
        """Waits until so many addons of this class are Ready, with a watch, as polling would load the server."""
        client = self.management.client
        ready: set[str] = set()
        page = next(client.pages(CLUSTER_ADDON, NAMESPACE))

        def take(addon: Object) -> None:
            if dig(addon, "spec.clusterStack") == class_name and dig(addon, "status.ready") is True:
                ready.add(addon["metadata"]["name"])

        for addon in page["items"]:
            take(addon)
        if len(ready) >= enough:
            return
        for event in client.watch(CLUSTER_ADDON, NAMESPACE, version=page["metadata"]["resourceVersion"], seconds=240):
            take(event["object"])
            if len(ready) >= enough:
                return
        raise TimeoutError(f"{len(ready)} of {enough} addons became Ready with {class_name}")

    def wait_quiet(self) -> float:
        """Waits until the processes use no CPU; returns the time of the last use."""
        last, at = -1.0, time.perf_counter()
        while since(at) < QUIET:
            now = sum(cpu_seconds(pid) for pid in self.processes.pids.values())
            if now - last > 0.05:
                last, at = now, time.perf_counter()
            time.sleep(0.1)
        return at

    def updated(self, version: str) -> int:
        """Returns the number of objects of this version in the workload cluster."""
        found = self.workload.client.list(CONFIG_MAP, selector="app=addon")
        return sum(obj["metadata"]["name"] == charts.CHANGED and dig(obj, "data.version") == version for obj in found)

    def measure(
        self, title: str, act: Callable[[], None], own: Requests, reached: Callable[[], None] | None = None
    ) -> None:
        """Prints what `act` cost, without the requests of the benchmark itself (`own`).

        The time is that until `reached`, or else until nothing was left to do; all else includes what came after.
        """
        both = (self.management, self.workload)
        before, cpu = [server.requests() for server in both], [server.cpu() for server in both]
        usage = Usage(self.processes)
        with usage.watched():
            started = time.perf_counter()
            act()
            if reached:
                reached()
            seconds = since(started)
            quiet = self.wait_quiet()
            if not reached:
                seconds = quiet - started
        spent = [server.requests() - then for server, then in zip(both, before, strict=True)]
        servers_cpu = sum(server.cpu() - then for server, then in zip(both, cpu, strict=True))
        spent[0] -= own
        memory = sum(usage.memory.values())
        self.rows.append(
            f"{title:<38} {seconds:6.1f} {spent[0].total() + spent[1].total():9} {sum(usage.cpu.values()):8.1f} "
            f"{servers_cpu:8.1f} {memory:8.0f}"
        )
        print(f"{title}: {seconds:.1f} s")
        for name, requests in zip(("management", "workload"), spent, strict=True):
            print(f"  {name}: {by_verb(requests)}; a cluster: {_a_cluster(requests)}")
        for name, cpu_used in usage.cpu.items():
            print(f"  {name}: {cpu_used:.1f} s CPU, {usage.memory[name]:.0f} MiB", flush=True)


def _a_cluster(requests: Requests) -> str:
    """Returns the requests per cluster; single requests for all clusters are left out."""
    each = [(count / CLUSTERS, *what) for what, count in requests.most_common() if count >= CLUSTERS / 10]
    return ", ".join(f"{count:.2f} {verb} {resource}" for count, verb, resource in each) or "nothing"


@contextmanager
def fleet(rows: list[str]) -> Iterator[tuple[Fleet, str, str]]:
    """Yields a fleet without clusters, with running processes, and the classes of two releases."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, servers(Path(folder), "management", "workload") as two:
        root = Path(folder)
        management, workload = two
        crds.install(management.client, crds.load())
        os.environ["KUBECONFIG"] = str(management.kubeconfig)
        values = "name: {{ .Cluster.metadata.name }}"
        classes = []
        for version in ("v1", "v2"):
            chart = yaml.safe_dump_all(charts.fifteen(_NAME, version)).replace(_NAME, "{{ .Values.name }}")
            classes.append(write_release(root / "releases", version, templates={"all.yaml": chart}, values=values))
        with storage(root / "releases"):
            processes = Processes(root)
            try:
                processes.start()
                fleet = Fleet(management, workload, processes, rows)
                fleet.secrets()
                fleet.wait_quiet()
                yield fleet, classes[0], classes[1]
            finally:
                processes.close()


def run() -> None:
    rows: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    print(f"{CLUSTERS} clusters x 15 objects")
    _life(rows)
    _killed(rows)
    print(f"{'':<38} {'s':>6} {'requests':>9} {'our CPU':>8} {'servers':>8} {'MiB':>8}")
    print("\n".join(rows), flush=True)


def _life(rows: list[str]) -> None:
    with fleet(rows) as (all_, first, second):

        def sweep(**data: object) -> None:
            all_.processes.send(Event(type=PING, source="/bench", id="1", data=dict(data)))

        def again() -> None:
            all_.processes.kill()
            all_.processes.start()

        title = "first roll-out to all Ready"
        all_.measure(title, lambda: all_.create(first), _own("POST"), lambda: all_.wait_ready(first))
        all_.measure("sweep", sweep, Counter())
        all_.measure("sweep of everything", lambda: sweep(everything=True), Counter())
        annotated = {"metadata": {"annotations": {"example.com/note": "1"}}}
        all_.measure("all Clusters annotated", lambda: all_.change(annotated), _own("PATCH", lists=0))
        all_.measure("restart with all settled (kill -9)", again, Counter())
        change = partial(all_.change, _asks_for(second))
        all_.measure("v1 to v2", change, _own("PATCH"), lambda: all_.wait_ready(second))
        print(f"  objects really updated: {all_.updated('v2')} of {CLUSTERS}")
        _interrupted(all_, "v2 to v1, all killed at half", "PATCH", partial(all_.change, _asks_for(first)), first)


def _killed(rows: list[str]) -> None:
    with fleet(rows) as (all_, first, _):
        _interrupted(all_, "first roll-out, all killed at half", "POST", lambda: all_.create(first), first)


def _interrupted(all_: Fleet, title: str, verb: str, act: Callable[[], None], release: str) -> None:
    """Measures `act` with all processes killed once half of the clusters have `release`."""

    def killed() -> None:
        act()
        all_.wait_ready(release, enough=CLUSTERS // 2)
        all_.processes.kill()
        all_.processes.start()

    all_.measure(title, killed, _own(verb, lists=2), lambda: all_.wait_ready(release))
    print(f"  objects really there: {all_.updated('v1')} of {CLUSTERS}")


def _asks_for(release: str) -> Object:
    return {"spec": {"topology": {"classRef": {"name": release}}}}


def _own(verb: str, *, lists: int = 1) -> Requests:
    """Returns the requests of the benchmark itself: a write for each Cluster, and a list before each watch."""
    return Counter({(verb, CLUSTER.plural): CLUSTERS, ("LIST", CLUSTER_ADDON.plural): lists})
