"""A local run as `capi-functions up` starts it, a KINDCluster of the runtime `local`, a Cluster in docker's memory.

Seconds until the run is up, without providers and with their managers as processes, at first and again with its data;
memory of all processes once it is up (PSS), and the sum of their peaks until then.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from infra import local_control_plane
from infra.local.local_run import LocalRun
from infra.operations.providers import local_managers
from shared.api.conditions import is_true
from shared.api.resources import CLUSTER, KIND_CLUSTER
from shared.kube import Client, Key, dig
from shared.kube.discovery import Discovery
from tests.support.http_server import HttpServer, Response
from tests.support.live_core import DOCKER_MANAGER
from tests.support.objects import manifest
from tests.support.ports import exclusive
from tests.support.real_providers import CURRENT, components, in_memory_cluster

from .parts import median, peak_mib, rss_mib, since

ROUNDS = 3
PROVIDERS = "core,kubeadm,docker"
KEY = Key("default", "bench")


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return since(started)


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError("not reached within five minutes")
        time.sleep(0.05)


def _run(folder: Path, providers: str) -> LocalRun:
    return LocalRun(folder, profiles=("addons", "providers") if providers else ("all",), get_helm=False)


def _started(run: LocalRun, providers: str) -> float:
    wanted = local_managers.parse(providers)
    return _seconds(lambda: run.start(lambda: local_managers.install(run, wanted, lambda _line: None)))


def _memory(run: LocalRun, of: Callable[[int], float]) -> float:
    """Returns the MiB of a run: this process, its children, and the control plane, which is detached."""
    return of(os.getpid()) + of(local_control_plane.status(run.plane).pid or 0)


def _kind_cluster(client: Client) -> tuple[float, float]:
    """Returns the seconds from creation to ready, and from deletion to gone."""
    spec = {"clusterName": KEY.name, "kubernetesVersion": "1.36", "runtime": "local"}

    def create() -> None:
        client.create(KIND_CLUSTER, manifest(KIND_CLUSTER, KEY.name, KEY.namespace, spec=spec))
        _until(lambda: dig(client.get(KIND_CLUSTER, KEY), "status.ready", False) is True)

    def delete() -> None:
        client.delete(KIND_CLUSTER, KEY)
        _until(lambda: client.find(KIND_CLUSTER, KEY) is None)

    return _seconds(create), _seconds(delete)


def _cluster_in_memory(client: Client) -> float:
    """Returns the seconds from the creation of ClusterClass and Cluster to Available."""
    discovery = Discovery(client)

    def create() -> None:
        for obj in itertools.chain(*in_memory_cluster(KEY, "v1.36.0")):
            resource = discovery.resource(obj["apiVersion"], obj["kind"])
            assert resource is not None, obj["kind"]
            client.apply(resource, obj, manager="bench")
        _until(lambda: is_true(dig(client.get(CLUSTER, KEY), "status.conditions", []), "Available"))

    return _seconds(create)


def run() -> None:
    published = components(CURRENT)
    with (
        exclusive(DOCKER_MANAGER),
        HttpServer(lambda request: Response(body=(published / request.path[1:]).read_bytes())) as site,
    ):
        os.environ |= {"GITHUB_URL": site.url, "GITHUB_API_URL": site.url}
        print(f"{'':<34} {'up s':>7} {'again s':>8} {'stopped s':>10} {'MiB':>6} {'peak':>6}   median of {ROUNDS}")
        clusters, in_memory = [], []
        for providers in ("", PROVIDERS):
            rounds = []
            for _ in range(ROUNDS):
                with tempfile.TemporaryDirectory(prefix="bench-") as name:
                    first = _run(Path(name) / "run", providers)
                    up = _started(first, providers)
                    memory, peak = _memory(first, rss_mib), _memory(first, peak_mib)
                    if first.client and not providers:
                        clusters.append(_kind_cluster(first.client))
                    elif first.client:
                        in_memory.append(_cluster_in_memory(first.client))
                    stopped = _seconds(first.stop)
                    second = _run(Path(name) / "run", providers)
                    again = _started(second, providers)
                    second.stop()
                    rounds.append((up, again, stopped, memory, peak))
            figures = [median(values) for values in zip(*rounds, strict=True)]
            title = f"up --providers {providers}" if providers else "up"
            seconds = f"{figures[0]:7.1f} {figures[1]:8.1f} {figures[2]:10.1f}"
            print(f"{title:<34} {seconds} {figures[3]:6.0f} {figures[4]:6.0f}", flush=True)
        created, deleted = (median(values) for values in zip(*clusters, strict=True))
        print(f"KINDCluster of the runtime local: {created:.1f} s until ready, {deleted:.1f} s until gone")
        print(f"Cluster in docker's memory: {median(in_memory):.1f} s until Available")
