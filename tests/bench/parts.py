"""Shared by the benchmarks: a management cluster with the CRDs, an object store, figures of processes."""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra import local_control_plane
from infra.local import crds
from shared.kube import Client, connect
from tests.support import moto_server


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
    store = moto_server.start()
    moto_server.wait_ready(store.url)
    os.environ |= {
        "S3_ENDPOINT_URL": store.url,
        "CAPI_FUNCTIONS_STORE_KEY": "k" * 32,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "RELEASE_SOURCE": str(releases),
    }
    try:
        yield
    finally:
        store.stop()


def children(pid: int) -> list[int]:
    """Returns the ids of the processes that a process has started; none if it has ended."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in _text(task).split()]
    return found


def rss_mib(pid: int) -> float:
    """Returns the memory of a process tree in MiB; shared pages count in part (PSS)."""
    return _mib(pid, "smaps_rollup", "Pss") + sum(map(rss_mib, children(pid)))


def peak_mib(pid: int) -> float:
    """Returns the sum of the peaks of the processes in a tree in MiB: no less than the peak of the tree.

    Each may have had its own at another time, and shared pages count in each (VmHWM). Processes that have ended are
    left out.
    """
    return _mib(pid, "status", "VmHWM") + sum(map(peak_mib, children(pid)))


def _mib(pid: int, file: str, field: str) -> float:
    sizes = re.findall(rf"^{field}:\s+(\d+) kB", _text(Path(f"/proc/{pid}/{file}")), re.MULTILINE)
    return sum(map(int, sizes)) / 1024


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds of a process tree. A process that has ended counts with its parent, which waited for it;
    without such a parent it is 0.
    """
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # user and system, its own and of waited children
    return own + sum(map(cpu_seconds, children(pid)))


def _text(file: Path) -> str:
    """Returns the content of a file in /proc; "" if the process has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def since(started: float) -> float:
    return time.perf_counter() - started
