"""Cold starts: for each function the time from exec of functions-framework to the first answer, and the memory then."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import urllib3

from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.event import PING, Event, change_event, own_event
from shared.kube import Object

from .parts import cpu_seconds, management, median, rss_mib, since, storage
from .table import Row, Table

ROUNDS = 5
BUDGET = Row(seconds=0.45, memory=60)
LARGE = Row(seconds=0.6, memory=60)


def first_event(name: str) -> Event:
    if name == "sweep":
        return Event(type=PING, source="/bench", id="1")
    if name == "release_assets":
        return own_event("release.wanted", source="/bench", subject="r", data={"release": "local-demo-1-36-v1"})
    cluster: Object = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "KINDCluster" if name == "kind_cluster" else "Cluster",
        "metadata": {"name": "gone", "namespace": "default"},
    }
    if name == "kind_cluster":
        cluster["apiVersion"] = "infrastructure.cluster-k8s.io/v1alpha1"
    return change_event(cluster, "update", source="/bench")


def run() -> None:
    http = urllib3.PoolManager()
    with management(), tempfile.TemporaryDirectory() as folder, storage(Path(folder)):
        environment = {**os.environ, "K_SINK": "http://127.0.0.1:9", "THREADS": "8"}
        table = Table()
        for name in catalog.names():
            seconds, memory, cpu = [], [], []
            headers, body = first_event(name).to_http()
            for _ in range(ROUNDS):
                server = FunctionsServer(environment, Path(folder) / "log", function=name)
                started = time.perf_counter()
                server.start()
                answer = http.request("POST", server.url, headers=headers, body=body, timeout=30, retries=False)
                seconds.append(since(started))
                assert answer.status in (200, 202, 204, 503), answer.data
                assert server.process is not None
                memory.append(rss_mib(server.process.pid))
                cpu.append(cpu_seconds(server.process.pid))
                server.close()
            row = Row(seconds=median(seconds), memory=median(memory), ours=median(cpu))
            print(table.add(name, row, LARGE if name in ("addon_apply", "release_assets") else BUDGET), flush=True)
        table.print()
