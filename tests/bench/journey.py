"""Times the main journey: a local control plane, a Cluster until its addons are Ready, an upgrade, the deletion."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import yaml

from infra.cli.demo import FOLDER, RELEASES, STACK
from infra.local.local_run import LocalRun
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER
from shared.kube import Client, Key, dig

from .parts import cpu_seconds, median, rss_mib, since

ROUNDS = 3
KEY, ADDON = Key("default", "demo"), Key("default", "cluster-addon-demo")


def run() -> None:
    rounds = [_round() for _ in range(ROUNDS)]
    for title in rounds[0]:
        values = sorted(figures[title] for figures in rounds)
        print(f"{title:<44} {median(values):7.2f}   ({values[0]:.2f} to {values[-1]:.2f})")


def _round() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        local_run = LocalRun(Path(folder), releases=RELEASES)
        started = time.perf_counter()
        local_run.start()
        figures["everything up, s"] = since(started)
        assert local_run.client is not None
        assert local_run.services.functions is not None
        assert local_run.services.functions.process is not None
        try:
            client = local_run.client
            started = time.perf_counter()
            resources = {CLUSTER.kind: CLUSTER, KIND_CLUSTER.kind: KIND_CLUSTER}
            for document in yaml.safe_load_all((FOLDER / "cluster.yaml").read_text()):
                client.apply(resources[document["kind"]], document, manager="bench")
            _applied(client, "v1")
            figures["Cluster applied to addons Ready, s"] = since(started)
            started = time.perf_counter()
            client.patch(CLUSTER, KEY, {"spec": {"topology": {"classRef": {"name": f"{STACK}-v2"}}}})
            _applied(client, "v2")
            figures["upgrade (14 objects, release not fetched), s"] = since(started)
            pid = local_run.services.functions.process.pid
            figures["all functions in one process: Pss MiB"] = rss_mib(pid)
            figures["all functions in one process: CPU s"] = cpu_seconds(pid)
            started = time.perf_counter()
            client.delete(CLUSTER, KEY)
            while client.find(CLUSTER, KEY) is not None:
                time.sleep(0.01)
            figures["Cluster deleted to gone, s"] = since(started)
        finally:
            started = time.perf_counter()
            local_run.stop()
            figures["everything stopped, s"] = since(started)
    return figures


def _applied(client: Client, version: str) -> None:
    while True:
        addon = client.find(CLUSTER_ADDON, ADDON)
        if dig(addon, "spec.clusterStack") == f"{STACK}-{version}" and dig(addon, "status.ready") is True:
            return
        time.sleep(0.01)
