"""One HelmChartProxy for many clusters: time, requests, CPU and memory of the functions, or of another controller.

`charts_peer` measures Cluster API Addon Provider Helm (CAAPH) after the functions, on the same work. Its module is
built once, and it fetches the chart, which the functions have in their object store. There each cluster has a
HelmChartProxy of its own, because CAAPH generates release names of the time in seconds, which collide on one server.

One workload API server stands in for all clusters; each has its own kubeconfig there. The release names are generated,
so that the releases can share a namespace. `BENCH_CLUSTERS` is the number of clusters (100).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from infra.local import crds
from infra.local_control_plane import go_build
from infra.operations.bench.load import Load, WorkloadCluster, create_secrets
from shared.api.conditions import READY, is_true
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import ChartStore
from shared.kube import Key, Object, dig
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.chart_repository import ChartRepository
from tests.support.ports import free_port
from tests.support.registry import certificate
from tests.support.releases import archive

from . import charts
from .auditing import Plane, planes
from .measuring import Meter
from .parts import storage
from .processes import Processes, Running
from .table import NOTHING, Table

CLUSTERS = int(os.environ.get("BENCH_CLUSTERS", "100"))
NAMESPACE = "default"
NAME = "addons"
MODULE = "sigs.k8s.io/cluster-api-addon-provider-helm@v0.6.4"
VERSIONS = ("1.0.0", "2.0.0")
_LABELS = {"bench": "yes"}
_CLUSTER = "CLUSTERNAME"
_ANNOTATED: Object = {"metadata": {"annotations": {"example.com/note": "1"}}}
_INITIALIZED: Object = {"status": {"initialization": {"controlPlaneInitialized": True}}}


class ChartsFleet:
    """The clusters of one management cluster, and the HelmChartProxy that selects all of them."""

    def __init__(
        self,
        management: Plane,
        workload: Plane,
        processes: Processes | Manager,
        table: Table,
        clusters: int,
        *,
        named: bool,
    ) -> None:
        self.management, self.workload, self.processes = management, workload, processes
        self.measure = Meter({"management": management, "workload": workload}, processes, table, clusters).measure
        self.load = Load(clusters, NAMESPACE, "")
        self._pool = ThreadPoolExecutor(8)
        self._proxies = {name: name for name in self.load.names} if named else {NAME: ""}
        """The name of the release by the name of its HelmChartProxy; it is empty if the name is generated."""

    def prepare(self, repository: str) -> None:
        """Creates the kubeconfigs and the HelmChartProxies."""
        workload = WorkloadCluster.load(self.workload.kubeconfig)
        create_secrets(self.load, self.management.client, workload, lambda _number: None)
        for name, release in self._proxies.items():
            spec = {
                "clusterSelector": {"matchLabels": _LABELS | ({"name": release} if release else {})},
                "repoURL": repository,
                "chartName": NAME,
                "version": VERSIONS[0],
                "namespace": "kube-system",
                "releaseName": release,
                "valuesTemplate": "name: {{ .Cluster.metadata.name }}\n",
            }
            body = objects.manifest(HELM_CHART_PROXY, name, NAMESPACE, spec=spec)
            self.management.client.create(HELM_CHART_PROXY, body)

    def create(self) -> None:
        def create(name: str) -> None:
            metadata = {"name": name, "namespace": NAMESPACE, "labels": _LABELS | {"name": name}}
            cluster = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata, "spec": {}}
            self.management.client.create(CLUSTER, cluster)
            self.management.client.patch(CLUSTER, Key(NAMESPACE, name), _INITIALIZED, subresource="status")

        list(self._pool.map(create, self.load.names))

    def upgrade(self) -> None:
        changed: Object = {"spec": {"version": VERSIONS[1]}}
        keys = [Key(NAMESPACE, name) for name in self._proxies]
        list(self._pool.map(lambda key: self.management.client.patch(HELM_CHART_PROXY, key, changed), keys))

    def annotate_clusters(self) -> None:
        keys = [Key(NAMESPACE, name) for name in self.load.names]
        list(self._pool.map(lambda key: self.management.client.patch(CLUSTER, key, _ANNOTATED), keys))

    def wait_ready(self, version: str) -> None:
        """Waits until the releases of all clusters are Ready, with a watch, as polling would load the server."""
        client, ready, enough = self.management.client, set[str](), self.load.clusters
        seen = ""

        def take(release: Object) -> None:
            observed = dig(release, "status.observedGeneration") == dig(release, "metadata.generation")
            deployed = dig(release, "status.status") == "deployed" and dig(release, "spec.version") == version
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


class Manager(Running):
    """The program of CAAPH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = go_build.of_module("caaph-manager", MODULE, print)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = 0.0

    @property
    def pids(self) -> dict[str, int]:  # type: ignore[override]
        return {"manager": self._process.pid} if self._process is not None else {}

    def cpu(self) -> dict[str, float]:
        return {"manager": self._ended + sum(super().cpu().values())}

    def start(self) -> None:
        command = [
            str(self._program),
            "--health-addr=127.0.0.1:0",
            "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics",
            f"--webhook-port={free_port()}",
            f"--webhook-cert-dir={self._folder}",
        ]
        with (self._folder / "manager.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**os.environ, "HOME": str(self._folder)}, stdout=log, stderr=log
            )

    def restart(self) -> None:
        self.close()
        self.start()

    def close(self) -> None:
        if self._process is not None:
            self._ended = self.cpu()["manager"]
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def fleet(
    table: Table, clusters: int, implementation: type[Processes | Manager], *, named: bool
) -> Iterator[ChartsFleet]:
    """Yields a fleet whose Clusters do not exist yet, with running processes."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        planes(Path(name), "management", "workload") as both,
        storage(Path(name)),
    ):
        folder = Path(name)
        management, workload = both
        crds.install(management.client, crds.load())
        certificate(folder)
        trust = {"SSL_CERT_FILE": str(folder / "ca.crt")}
        os.environ |= {"KUBECONFIG": str(management.kubeconfig), "CAPI_FUNCTIONS_PROFILES": "addons", **trust}
        repository = ChartRepository()
        with repository.serve(folder) as site:
            url = f"{site.url}/repo"
            for version in VERSIONS:
                repository.add(NAME, version, packed(version))
                request = ChartRequest(url, NAME, version, NAMESPACE)
                ChartStore(ObjectStore.from_env()).save(request, NAME, version, packed(version))
            processes = implementation(folder)
            try:
                processes.start()
                it = ChartsFleet(management, workload, processes, table, clusters, named=named)
                it.prepare(url)
                processes.wait_quiet()
                yield it
            finally:
                processes.close()


def packed(version: str) -> bytes:
    content = charts.labelled(_CLUSTER, "v1" if version == VERSIONS[0] else "v2")
    text = yaml.safe_dump_all(content).replace(_CLUSTER, "{{ .Values.name }}")
    metadata = f"apiVersion: v2\nname: {NAME}\nversion: {version}\n"
    return archive({f"{NAME}/Chart.yaml": metadata, f"{NAME}/templates/all.yaml": text})


def measure(implementation: type[Processes | Manager], *, named: bool = False) -> None:
    table = Table()
    proxies = "a HelmChartProxy each" if named else "one HelmChartProxy"
    print(f"{implementation.__name__}: {CLUSTERS} clusters x 15 objects, {proxies}")
    with fleet(table, CLUSTERS, implementation, named=named) as all_:
        first, second = VERSIONS
        all_.measure("first roll-out to all Ready", all_.create, reached=partial(all_.wait_ready, first))
        all_.measure("all Clusters annotated", all_.annotate_clusters, NOTHING)
        all_.measure("restart with all settled (kill -9)", all_.processes.restart)
        title = "upgrade: 14 changed, 1 pruned each"
        all_.measure(title, all_.upgrade, reached=partial(all_.wait_ready, second))
    table.print()


def run() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    measure(Processes)


def run_with_peer() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    measure(Processes, named=True)
    measure(Manager, named=True)
