"""One HelmChartProxy for many clusters through the real forwarder and functions: time, requests, CPU, memory.

One workload API server stands in for all clusters; each has its own kubeconfig there. The release names are generated,
so that the releases can share a namespace. `BENCH_CLUSTERS` is the number of clusters (100).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from infra.local import crds
from infra.operations.bench.load import Load, WorkloadCluster, create_secrets
from shared.api.conditions import READY, is_true
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import ChartStore
from shared.kube import Key, Object, dig
from shared.storage import ObjectStore
from tests.support.releases import archive

from . import charts
from .auditing import Plane, planes
from .measuring import Meter
from .parts import storage
from .processes import Processes
from .table import NOTHING, Table

CLUSTERS = int(os.environ.get("BENCH_CLUSTERS", "100"))
NAMESPACE = "default"
NAME = "addons"
VERSIONS = ("1.0.0", "2.0.0")
REPOSITORY = "https://charts.example.com"
_LABELS = {"bench": "yes"}
_CLUSTER = "CLUSTERNAME"
_ANNOTATED: Object = {"metadata": {"annotations": {"example.com/note": "1"}}}
_INITIALIZED: Object = {"status": {"initialization": {"controlPlaneInitialized": True}}}


class ChartsFleet:
    """The clusters of one management cluster, and the HelmChartProxy that selects all of them."""

    def __init__(self, management: Plane, workload: Plane, processes: Processes, table: Table, clusters: int) -> None:
        self.management, self.workload, self.processes = management, workload, processes
        self.measure = Meter({"management": management, "workload": workload}, processes, table, clusters).measure
        self.load = Load(clusters, NAMESPACE, "")
        self._pool = ThreadPoolExecutor(8)

    def prepare(self) -> None:
        """Creates the kubeconfigs and the HelmChartProxy."""
        workload = WorkloadCluster.load(self.workload.kubeconfig)
        create_secrets(self.load, self.management.client, workload, lambda _number: None)
        spec = {
            "clusterSelector": {"matchLabels": _LABELS},
            "repoURL": REPOSITORY,
            "chartName": NAME,
            "version": VERSIONS[0],
            "namespace": "kube-system",
            "valuesTemplate": "name: {{ .Cluster.metadata.name }}\n",
        }
        metadata = {"name": NAME, "namespace": NAMESPACE}
        body = {"apiVersion": HELM_CHART_PROXY.api_version, "kind": HELM_CHART_PROXY.kind, "metadata": metadata}
        self.management.client.create(HELM_CHART_PROXY, {**body, "spec": spec})

    def create(self) -> None:
        def create(name: str) -> None:
            metadata = {"name": name, "namespace": NAMESPACE, "labels": _LABELS}
            cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata, "spec": {}}
            self.management.client.create(CLUSTER, cluster)
            self.management.client.patch(CLUSTER, Key(NAMESPACE, name), _INITIALIZED, subresource="status")

        list(self._pool.map(create, self.load.names))

    def upgrade(self) -> None:
        self.management.client.patch(HELM_CHART_PROXY, Key(NAMESPACE, NAME), {"spec": {"version": VERSIONS[1]}})

    def annotate_clusters(self) -> None:
        keys = [Key(NAMESPACE, name) for name in self.load.names]
        list(self._pool.map(lambda key: self.management.client.patch(CLUSTER, key, _ANNOTATED), keys))

    def wait_ready(self, version: str) -> None:
        """Waits until the releases of all clusters are Ready, with a watch, as polling would load the server."""
        client, ready, enough = self.management.client, set[str](), self.load.clusters
        seen = ""

        def take(release: Object) -> None:
            observed = dig(release, "status.observedGeneration") == dig(release, "metadata.generation")
            deployed = dig(release, "status.chartVersion") == version and dig(release, "spec.version") == version
            if observed and deployed and is_true(dig(release, "status.conditions"), READY):
                ready.add(release["metadata"]["name"])

        for page in client.pages(HELM_RELEASE_PROXY, NAMESPACE):
            seen = page["metadata"]["resourceVersion"]
            for release in page["items"]:
                take(release)
        for event in client.watch(HELM_RELEASE_PROXY, NAMESPACE, version=seen, seconds=240 + 2 * enough):
            take(event["object"])
            if len(ready) >= enough:
                return
        raise TimeoutError(f"{len(ready)} of {enough} releases became Ready with {version}")


@contextmanager
def fleet(table: Table, clusters: int) -> Iterator[ChartsFleet]:
    """Yields a fleet whose Clusters do not exist yet, with running processes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, planes(Path(folder), "management", "workload") as both:
        management, workload = both
        crds.install(management.client, crds.load())
        os.environ |= {"KUBECONFIG": str(management.kubeconfig), "CAPI_FUNCTIONS_PROFILES": "addons"}
        with storage(Path(folder)):
            for version in VERSIONS:
                _store(version)
            processes = Processes(Path(folder))
            try:
                processes.start()
                it = ChartsFleet(management, workload, processes, table, clusters)
                it.prepare()
                processes.wait_quiet()
                yield it
            finally:
                processes.close()


def _store(version: str) -> None:
    """Stores the chart as `chart_assets` does: the repository is no part of the measurement."""
    objects = charts.labelled(_CLUSTER, "v1" if version == VERSIONS[0] else "v2")
    text = yaml.safe_dump_all(objects).replace(_CLUSTER, "{{ .Values.name }}")
    request = ChartRequest(REPOSITORY, NAME, version, NAMESPACE)
    metadata = f"apiVersion: v2\nname: {NAME}\nversion: {version}\n"
    packed = archive({f"{NAME}/Chart.yaml": metadata, f"{NAME}/templates/all.yaml": text})
    ChartStore(ObjectStore.from_env()).save(request, NAME, version, packed)


def run() -> None:
    table = Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    print(f"{CLUSTERS} clusters x 15 objects, one HelmChartProxy")
    with fleet(table, CLUSTERS) as all_:
        first, second = VERSIONS
        all_.measure("first roll-out to all Ready", all_.create, reached=partial(all_.wait_ready, first))
        all_.measure("all Clusters annotated", all_.annotate_clusters, NOTHING)
        all_.measure("restart with all settled (kill -9)", all_.processes.restart)
        title = "upgrade: 14 changed, 1 pruned each"
        all_.measure(title, all_.upgrade, reached=partial(all_.wait_ready, second))
    table.print()
