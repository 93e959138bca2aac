"""How time, requests, CPU and memory grow with the number of clusters; the figures of docs/scaling.md.

`BENCH_SCALE` lists the numbers of clusters (100,300,1000), each measured in a new management cluster.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from functools import partial

from shared.api.resources import CLUSTER, CLUSTER_ADDON, SECRET

from .auditing import Plane
from .fleet import NAMESPACE, Fleet, fleet
from .table import Table

NUMBERS = [int(number) for number in os.environ.get("BENCH_SCALE", "100,300,1000").split(",")]
_SIZE = re.compile(r"^apiserver_storage_size_bytes\{.*\} (\S+)$", re.MULTILINE)


def run() -> None:
    table = Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    stored = []
    for number in NUMBERS:
        with fleet(table, number) as all_:
            empty = [_stored_mib(plane) for plane in (all_.management, all_.workload)]
            title = f"{number} clusters: first roll-out"
            all_.measure(title, all_.create, reached=partial(all_.wait_ready, all_.first))
            stored.append(_storage(all_, empty))
            all_.measure(f"{number} clusters: all annotated", all_.annotate_clusters)
            all_.measure(f"{number} clusters: resync of all", partial(all_.sweep, everything=True))
            all_.measure(f"{number} clusters: restart", all_.processes.restart)
            upgrade = partial(all_.ask_for, all_.second)
            all_.measure(f"{number} clusters: upgrade", upgrade, reached=partial(all_.wait_ready, all_.second))
            stored.append(_storage(all_, empty))
    table.print()
    print("\n".join(stored), flush=True)


def _storage(all_: Fleet, empty: list[float]) -> str:
    """Returns what the API servers store and need for the clusters, as text."""
    planes = {"management": all_.management, "workload": all_.workload}
    sizes = [
        f"{name}: etcd {_stored_mib(plane) - before:.0f} MiB more, {plane.memory():.0f} MiB of memory"
        for (name, plane), before in zip(planes.items(), empty, strict=True)
    ]
    return f"{len(all_.names)} clusters: {'; '.join(sizes)}; JSON of one cluster: {_bytes(all_)}"


def _stored_mib(plane: Plane) -> float:
    return sum(float(size) for size in _SIZE.findall(plane.client.text("/metrics", timeout=30))) / 2**20


def _bytes(all_: Fleet) -> str:
    """Returns the sizes of the objects of one cluster, by kind."""
    name, client = all_.names[0], all_.management.client
    found = []
    for resource in (CLUSTER, CLUSTER_ADDON, SECRET):
        texts = [
            client.text(resource.path(NAMESPACE, obj["metadata"]["name"]))
            for obj in client.list(resource, NAMESPACE)
            if name in obj["metadata"]["name"]
        ]
        found.append(f"{len(texts)} {resource.kind} {sum(map(len, texts))}")
    return ", ".join(found)
