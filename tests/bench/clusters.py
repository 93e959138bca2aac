"""Clusters with an infrastructure object: our `cluster` and `kubeconfig`, and the core manager of Cluster API.

Both do the same steps, one after the other, each with its own management cluster. The bench is the infrastructure
provider. All Clusters have one workload API server, whose CA signs their kubeconfigs. `BENCH_CLUSTERS` is the number of
Clusters (100), `BENCH_IDLE` that of ours alone in a sweep (1000).
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from infra import local_control_plane
from infra.local import crds
from infra.local.managers.ports import free_ports
from infra.local_control_plane.binaries import locate
from shared import bounded_yaml
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, SECRET
from shared.certificates import CertificateAuthority
from shared.event import PING, Event
from shared.kube import Key, Object, Resource, dig
from shared.kube.crds import CRD
from tests.support.real_providers import CURRENT, DOWNLOADS, components

from .auditing import Plane, planes
from .measuring import Meter
from .parts import median, storage
from .processes import Processes, Running
from .table import NOTHING, Table

CLUSTERS = int(os.environ.get("BENCH_CLUSTERS", "100"))
IDLE = int(os.environ.get("BENCH_IDLE", "1000"))
ROUNDS = 20
NAMESPACE = "default"
INFRASTRUCTURE = Resource("infrastructure.cluster.x-k8s.io", "v1beta2", "BenchCluster", "benchclusters")


class CoreManager(Running):
    """The core manager of Cluster API, without webhooks."""

    def __init__(self, folder: Path, plane: Plane) -> None:
        ca = CertificateAuthority.generate("webhooks")
        served = ca.issue("localhost", dns=["localhost"], server=True)
        (folder / "tls.crt").write_bytes(served.cert_pem)
        (folder / "tls.key").write_bytes(served.key_pem)
        ports = free_ports("bench")
        health, webhooks = next(ports), next(ports)
        name = "cluster-api-manager"
        command = [
            str(locate([name], progress=print)[name]),
            f"--kubeconfig={plane.kubeconfig}",
            "--leader-elect=false",
            f"--health-addr=127.0.0.1:{health}",
            "--diagnostics-address=0",
            f"--webhook-port={webhooks}",
            f"--webhook-cert-dir={folder}",
        ]
        with (folder / "core.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.pids = {"core": self._process.pid}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Clusters:
    """Clusters of one management cluster, what users and their provider do, and what becomes of it."""

    def __init__(self, title: str, management: Plane, workload: Plane, running: Running, table: Table) -> None:
        self._title, self.management, self.running = title, management, running
        self._address = urlsplit(local_control_plane.status(workload.directory).url)
        self._ca = local_control_plane.load_ca(workload.directory)
        self._planes, self._table = {"management": management, "workload": workload}, table
        self._pool = ThreadPoolExecutor(8)
        self.names: list[str] = []

    def measure(self, step: str, act: Callable[[], object], **options: object) -> None:
        meter = Meter(self._planes, self.running, self._table, len(self.names))
        meter.measure(f"{self._title}: {step}", act, **options)

    # -- what users and the provider do ------------------------------------------------------------------------

    def create(self) -> None:
        def create(name: str) -> None:
            metadata: Object = {"name": name, "namespace": NAMESPACE}
            reference = {"apiGroup": INFRASTRUCTURE.group, "kind": INFRASTRUCTURE.kind, "name": name}
            data = {"tls.crt": self._ca.cert_pem, "tls.key": self._ca.key_pem}
            secret: Object = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "cluster.x-k8s.io/secret",
                "metadata": {**metadata, "name": f"{name}-ca", "labels": {CLUSTER_NAME_LABEL: name}},
                "data": {field: base64.b64encode(pem).decode() for field, pem in data.items()},
            }
            client = self.management.client
            client.create(SECRET, secret)
            client.create(INFRASTRUCTURE, _object(INFRASTRUCTURE, metadata, {}))
            client.create(CLUSTER, _object(CLUSTER, metadata, {"infrastructureRef": reference}))

        list(self._pool.map(create, self.names))
        self._until(INFRASTRUCTURE, lambda obj: bool(dig(obj, "metadata.ownerReferences")))
        endpoint = {"controlPlaneEndpoint": {"host": self._address.hostname, "port": self._address.port}}
        list(self._pool.map(lambda name: self._patch(INFRASTRUCTURE, name, {"spec": endpoint}), self.names))
        list(self._pool.map(partial(self._report, message=""), self.names))

    def _report(self, name: str, message: str) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": message}
        status = {
            "initialization": {"provisioned": True},
            "conditions": [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }
        self._patch(INFRASTRUCTURE, name, {"status": status}, subresource="status")

    def change(self, message: str) -> None:
        list(self._pool.map(partial(self._report, message=message), self.names))

    def annotate(self) -> None:
        note = {"metadata": {"annotations": {"example.com/note": "1"}}}
        list(self._pool.map(lambda name: self._patch(CLUSTER, name, note), self.names))

    def delete(self) -> None:
        list(self._pool.map(lambda name: self.management.client.delete(CLUSTER, Key(NAMESPACE, name)), self.names))

    def _patch(self, resource: Resource, name: str, patch: Object, subresource: str = "") -> None:
        self.management.client.patch(resource, Key(NAMESPACE, name), patch, subresource=subresource)

    # -- what becomes of it ------------------------------------------------------------------------------------

    def provisioned(self) -> None:
        self._until(CLUSTER, lambda obj: dig(obj, "status.phase") == "Provisioned")
        self._until(SECRET, lambda obj: obj["metadata"]["name"].endswith("-kubeconfig"))

    def reported(self, message: str) -> None:
        self._until(CLUSTER, partial(_is_reported, message=message))

    def gone(self) -> None:
        while any(self.management.client.list(CLUSTER, NAMESPACE)):
            time.sleep(0.1)

    def _until(self, resource: Resource, reached: Callable[[Object], bool]) -> None:
        deadline = time.monotonic() + 300
        while sum(map(reached, self.management.client.list(resource, NAMESPACE))) < len(self.names):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{resource.kind} not as awaited within five minutes")
            time.sleep(0.1)

    def delays(self) -> list[float]:
        """Returns the seconds from a change of one infrastructure object's status to that of its Cluster's."""
        client, name, found = self.management.client, self.names[0], []
        for number in range(ROUNDS):
            message = f"round {number}"
            version = client.get(CLUSTER, Key(NAMESPACE, name))["metadata"]["resourceVersion"]
            started = time.perf_counter()
            self._report(name, message)
            for event in client.watch(CLUSTER, NAMESPACE, version=version, seconds=60):
                if _is_reported(event["object"], message):
                    break
            found.append(time.perf_counter() - started)
        return found


def _is_reported(cluster: Object, message: str) -> bool:
    condition = get_condition(dig(cluster, "status.conditions"), "InfrastructureReady") or {}
    return condition.get("message") == message


def _object(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def _definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": INFRASTRUCTURE.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    metadata = {"name": f"{INFRASTRUCTURE.plural}.{INFRASTRUCTURE.group}"}
    spec = {
        "group": INFRASTRUCTURE.group,
        "scope": "Namespaced",
        "names": {"kind": INFRASTRUCTURE.kind, "plural": INFRASTRUCTURE.plural},
        "versions": [version],
    }
    labels = {"cluster.x-k8s.io/v1beta2": INFRASTRUCTURE.version}
    return {**_object(CRD, {**metadata, "labels": labels}, spec)}


def _core_definitions() -> list[Object]:
    """Returns the CRDs of core, without their conversion webhooks."""
    text = (components(CURRENT) / DOWNLOADS / CURRENT / "core-components.yaml").read_text()
    found = [obj for obj in bounded_yaml.load_all(text) if obj and obj["kind"] == "CustomResourceDefinition"]
    for crd in found:
        crd["spec"]["conversion"] = {"strategy": "None"}
    return found


@contextmanager
def _beside(table: Table, *, core: bool) -> Iterator[Clusters]:
    """Yields the Clusters of a new management cluster with the CRDs of core, where core or the functions run."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        planes(Path(name), "management", "workload") as (management, workload),
        storage(Path(name)),
    ):
        own = [crd for crd in crds.load() if dig(crd, "spec.group") != CLUSTER.group]
        crds.install(management.client, [*_core_definitions(), *own, _definition()])
        os.environ |= {"KUBECONFIG": str(management.kubeconfig), "CAPI_FUNCTIONS_PROFILES": "standalone"}
        running = CoreManager(Path(name), management) if core else Processes(Path(name))
        try:
            if isinstance(running, Processes):
                running.start()
            running.wait_quiet()
            yield Clusters("core" if core else "functions", management, workload, running, table)
        finally:
            running.close()


def run() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # ends all processes
    table, delays = Table(), {}
    for core in (False, True):
        with _beside(table, core=core) as all_:
            all_.names = [f"c{number:04}" for number in range(CLUSTERS)]
            all_.measure("created to Provisioned", all_.create, reached=all_.provisioned)
            all_.measure("annotated", all_.annotate)
            all_.measure(
                "status of infrastructure", partial(all_.change, "changed"), reached=partial(all_.reported, "changed")
            )
            delays["core" if core else "functions"] = all_.delays()
            all_.running.wait_quiet()
            all_.measure("idle for a minute", partial(time.sleep, 60))
            if isinstance(all_.running, Processes):
                _sweep(all_, all_.running)
            all_.measure("deleted", all_.delete, reached=all_.gone)
    if IDLE:
        with _beside(table, core=False) as all_:
            all_.names = [f"c{number:04}" for number in range(IDLE)]
            all_.create()
            all_.provisioned()
            all_.running.wait_quiet()
            assert isinstance(all_.running, Processes)
            _sweep(all_, all_.running, f"{IDLE} idle, ")
    table.print()
    for name, found in delays.items():
        print(f"{name}: {median(found) * 1000:.0f} ms from the infrastructure object's status to the Cluster's")


def _sweep(all_: Clusters, processes: Processes, title: str = "") -> None:
    for what, data in (("sweep", {}), ("sweep of everything", {"everything": True})):
        event = Event(type=PING, source="/bench", id="1", data=data)
        all_.measure(f"{title}{what}", partial(processes.send, event), **({} if data else {"budget": NOTHING}))
