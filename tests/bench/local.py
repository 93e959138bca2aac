"""A local run as `capi-functions up` starts it, and a KINDCluster of the runtime `local`.

Seconds until the run is up, without providers and with their managers as processes, at first and again with its data;
memory of all processes (PSS).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from infra import local_control_plane
from infra.cli.provider import local_managers
from infra.local.local_run import LocalRun
from shared.api.resources import KIND_CLUSTER
from shared.kube import Client, Key, dig
from tests.support.http_server import HttpServer, Response
from tests.support.live_core import DOCKER_MANAGER
from tests.support.objects import manifest
from tests.support.ports import exclusive
from tests.support.real_providers import CURRENT, components

from .parts import median, rss_mib, since

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


def _memory(run: LocalRun) -> float:
    """Returns the MiB of a run: this process, its children, and the control plane, which is detached."""
    return rss_mib(os.getpid()) + rss_mib(local_control_plane.status(run.plane).pid or 0)


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


def run() -> None:
    published = components(CURRENT)
    with (
        exclusive(DOCKER_MANAGER),
        HttpServer(lambda request: Response(body=(published / request.path[1:]).read_bytes())) as site,
    ):
        os.environ |= {"GITHUB_URL": site.url, "GITHUB_API_URL": site.url}
        print(f"{'':<34} {'up s':>7} {'again s':>8} {'stopped s':>10} {'MiB':>6}   median of {ROUNDS}")
        clusters = []
        for providers in ("", PROVIDERS):
            rounds = []
            for _ in range(ROUNDS):
                with tempfile.TemporaryDirectory(prefix="bench-") as name:
                    first = _run(Path(name) / "run", providers)
                    up, memory = _started(first, providers), _memory(first)
                    if first.client and not providers:
                        clusters.append(_kind_cluster(first.client))
                    stopped = _seconds(first.stop)
                    second = _run(Path(name) / "run", providers)
                    again = _started(second, providers)
                    second.stop()
                    rounds.append((up, again, stopped, memory))
            figures = [median(values) for values in zip(*rounds, strict=True)]
            title = f"up --providers {providers}" if providers else "up"
            print(f"{title:<34} {figures[0]:7.1f} {figures[1]:8.1f} {figures[2]:10.1f} {figures[3]:6.0f}", flush=True)
        created, deleted = (median(values) for values in zip(*clusters, strict=True))
        print(f"KINDCluster of the runtime local: {created:.1f} s until ready, {deleted:.1f} s until gone")
