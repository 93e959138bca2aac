"""Shared by the benchmarks: a management cluster with the CRDs, an object store, figures of processes."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra import local_control_plane, object_store
from infra.local import crds
from shared.kube import Client, connect


@contextmanager
def management() -> Iterator[tuple[Client, Path]]:
    """Yields client and folder of a new management cluster, and sets `KUBECONFIG`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        plane = Path(folder) / "management"
        local_control_plane.start(plane, owner=os.getpid(), timeout=120)
        os.environ["KUBECONFIG"] = str(local_control_plane.kubeconfig(plane))
        client = connect.management()
        crds.install(client, crds.load())
        try:
            yield client, plane
        finally:
            client.close()
            local_control_plane.stop(plane)


@contextmanager
def storage(releases: Path) -> Iterator[None]:
    store = object_store.start()
    object_store.wait_ready(store.url)
    os.environ |= {
        "S3_ENDPOINT_URL": store.url,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "RELEASE_SOURCE": str(releases),
    }
    try:
        yield
    finally:
        store.stop()


def tree(pid: int) -> list[int]:
    """Returns the ids of a process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def rss_mib(pid: int) -> float:
    """Returns the memory of a process tree in MiB; shared pages count in part (PSS)."""
    total = 0
    for member in tree(pid):
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def cpu_seconds(pid: int) -> float:
    ticks = 0
    for member in tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def since(started: float) -> float:
    return time.perf_counter() - started
