"""Many clusters at once through the real forwarder and the functions in one process: time, requests, CPU, memory.

One workload API server stands in for all clusters; each has its own kubeconfig and namespace there.
`BENCH_CLUSTERS` is their number (100; the budgets are those of 100), `CAPI_FUNCTIONS_PROFILES` which functions run.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from infra.local import crds
from infra.operations.bench.load import Load, WorkloadCluster, create_secrets
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import PING, Event
from shared.kube import Key, Object, Resource, dig
from shared.kube.discovery import Discovery
from tests.support.releases import write_release

from . import charts
from .auditing import Plane, planes
from .measuring import Meter
from .parts import storage
from .processes import Processes
from .table import NONE, NOTHING, Row, Table

CLUSTERS = int(os.environ.get("BENCH_CLUSTERS", "100"))
PROFILES = os.environ.get("CAPI_FUNCTIONS_PROFILES", "all")
NAMESPACE = "default"
VERSIONS = ("v1", "v2")
_NAME = "CLUSTERNAME"

FIRST_ROLL_OUT = Row(management=1000, workload=1650, conflicts=0, cpu=20, memory=120)
RESTART = Row(seconds=2, requests=150, writes=0, ours=2)
UPGRADE = Row(management=800, workload=1650, conflicts=0)
FIRST_CLUSTER = Row(seconds=0.8)


class Fleet:
    """The clusters of one management cluster.

    Args:
        management: The management cluster.
        workload: The server that all workload clusters share.
        processes: The functions and the forwarder.
        classes: The names of the two releases.
        table: Gets a row for each step that `measure` measures.
        clusters: The number of clusters.
    """

    def __init__(
        self,
        management: Plane,
        workload: Plane,
        processes: Processes,
        classes: tuple[str, str],
        table: Table,
        clusters: int,
    ) -> None:
        self.management, self.workload, self.processes = management, workload, processes
        self.first, self.second = classes
        self.measure = Meter({"management": management, "workload": workload}, processes, table, clusters).measure
        self.load = Load(clusters, NAMESPACE, self.first)
        self.names = self.load.names
        self._pool = ThreadPoolExecutor(8)

    # -- what users do -----------------------------------------------------------------------------------------

    def secrets(self) -> None:
        workload = WorkloadCluster.load(self.workload.kubeconfig)
        create_secrets(self.load, self.management.client, workload, lambda _number: None)

    def create(self) -> None:
        def create(name: str) -> None:
            metadata = {
                "name": name,
                "namespace": NAMESPACE,
                "annotations": {"capi-functions.dev/wait": "false"},  # without controllers nothing becomes ready
            }
            cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata}
            self.management.client.create(CLUSTER, {**cluster, **_asks_for(self.first)})

        list(self._pool.map(create, self.names))

    def ask_for(self, class_name: str) -> None:
        self._change(CLUSTER, [Key(NAMESPACE, name) for name in self.names], _asks_for(class_name))

    def annotate_clusters(self) -> None:
        self._change(CLUSTER, [Key(NAMESPACE, name) for name in self.names], _ANNOTATED)

    def annotate_addons(self) -> None:
        clusters = self.management.client.list(CLUSTER, NAMESPACE)
        self._change(CLUSTER_ADDON, [addon_of(cluster) for cluster in clusters], _ANNOTATED)

    def sweep(self, **data: object) -> None:
        self.processes.send(Event(type=PING, source="/bench", id="1", data=dict(data)))

    def _change(self, resource: Resource, keys: list[Key], patch: Object) -> None:
        list(self._pool.map(lambda key: self.management.client.patch(resource, key, patch), keys))

    # -- what becomes of it ------------------------------------------------------------------------------------

    def wait_ready(self, class_name: str, *, enough: int | None = None) -> None:
        """Waits until so many addons of this class are Ready, with a watch, as polling would load the server."""
        client, enough = self.management.client, len(self.names) if enough is None else enough
        ready: set[str] = set()
        version = ""

        def take(addon: Object) -> None:
            if dig(addon, "spec.clusterStack") == class_name and dig(addon, "status.ready") is True:
                ready.add(addon["metadata"]["name"])

        for page in client.pages(CLUSTER_ADDON, NAMESPACE):
            version = page["metadata"]["resourceVersion"]
            for addon in page["items"]:
                take(addon)
        if len(ready) >= enough:
            return
        patience = 240 + 2 * len(self.names)
        for event in client.watch(CLUSTER_ADDON, NAMESPACE, version=version, seconds=patience):
            take(event["object"])
            if len(ready) >= enough:
                return
        raise TimeoutError(f"{len(ready)} of {enough} addons became Ready with {class_name}")

    def present(self) -> dict[str, int]:
        """Returns the number of the charts' objects in the workload clusters, by version."""
        discovery, counts = Discovery(self.workload.client), dict.fromkeys(VERSIONS, 0)
        kinds = {(obj["apiVersion"], obj["kind"]) for obj in charts.labelled("any", VERSIONS[0])}
        for resource in filter(None, (discovery.resource(*kind) for kind in kinds)):
            for obj in self.workload.client.list(resource, selector=charts.VERSION_LABEL):
                counts[obj["metadata"]["labels"][charts.VERSION_LABEL]] += 1
        return counts


@contextmanager
def fleet(table: Table, clusters: int) -> Iterator[Fleet]:
    """Yields a fleet whose clusters have kubeconfigs and do not exist yet, with running processes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, planes(Path(folder), "management", "workload") as both:
        root = Path(folder)
        management, workload = both
        crds.install(management.client, crds.load())
        os.environ["KUBECONFIG"] = str(management.kubeconfig)
        first, second = (_write_release(root / "releases", version) for version in VERSIONS)
        with storage(root / "releases"):
            processes = Processes(root)
            try:
                processes.start()
                it = Fleet(management, workload, processes, (first, second), table, clusters)
                it.secrets()
                processes.wait_quiet()
                yield it
            finally:
                processes.close()


def _write_release(folder: Path, version: str) -> str:
    chart = yaml.safe_dump_all(charts.labelled(_NAME, version)).replace(_NAME, "{{ .Values.name }}")
    return write_release(folder, version, templates={"all.yaml": chart}, values="name: {{ .Cluster.metadata.name }}")


def run() -> None:
    table = Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    print(f"{CLUSTERS} clusters x 15 objects; profiles: {PROFILES}")
    _first(table)
    _life(table)
    _killed(table)
    table.print()


def _first(table: Table) -> None:
    with fleet(table, 1) as one:
        title = "first cluster, release not fetched"
        one.measure(title, one.create, FIRST_CLUSTER, reached=partial(one.wait_ready, one.first))


def _life(table: Table) -> None:
    with fleet(table, CLUSTERS) as all_:
        title = "first roll-out to all Ready"
        all_.measure(title, all_.create, _of_100(FIRST_ROLL_OUT), reached=partial(all_.wait_ready, all_.first))
        upgrade = partial(all_.ask_for, all_.second)
        title = "upgrade: 14 changed, 1 pruned each"
        all_.measure(title, upgrade, _of_100(UPGRADE), reached=partial(all_.wait_ready, all_.second))
        print(f"  objects in the workload clusters: {all_.present()}; expected {14 * CLUSTERS} of v2 only")
        all_.measure("sweep", all_.sweep)
        all_.measure("sweep of everything", partial(all_.sweep, everything=True))
        all_.measure("all Clusters annotated", all_.annotate_clusters, NOTHING)
        all_.measure("all ClusterAddons annotated", all_.annotate_addons, NOTHING)
        all_.measure("restart with all settled (kill -9)", all_.processes.restart, _of_100(RESTART))
        downgrade = partial(all_.ask_for, all_.first)
        all_.measure("v2 to v1, the first after a restart", downgrade, reached=partial(all_.wait_ready, all_.first))
        upgrade()
        all_.wait_ready(all_.second)
        all_.processes.wait_quiet()
        _interrupted(all_, "v2 to v1, all killed at half", partial(all_.ask_for, all_.first))


def _killed(table: Table) -> None:
    with fleet(table, CLUSTERS) as all_:
        _interrupted(all_, "first roll-out, all killed at half", all_.create)


def _interrupted(all_: Fleet, title: str, act: Callable[[], None]) -> None:
    """Measures `act`, which asks for v1, with all processes killed once half of the clusters have it."""

    def killed() -> None:
        act()
        all_.wait_ready(all_.first, enough=CLUSTERS // 2)
        all_.processes.restart()

    all_.measure(title, killed, reached=partial(all_.wait_ready, all_.first))
    print(f"  objects in the workload clusters: {all_.present()}; expected {15 * CLUSTERS} of v1 only")


_ANNOTATED: Object = {"metadata": {"annotations": {"example.com/note": "1"}}}


def _asks_for(class_name: str) -> Object:
    return {"spec": {"topology": {"classRef": {"name": class_name}}}}


def _of_100(budget: Row) -> Row:
    return budget if CLUSTERS == 100 else NONE
