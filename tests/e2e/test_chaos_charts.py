"""Events of HelmChartProxies and ClusterResourceSets are lost, doubled and late: the end is the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from infra import local_control_plane
from shared.api.conditions import is_true
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    NAMESPACE,
    SECRET,
)
from shared.kube import Client, Key, Object, dig
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.chart_repository import ChartRepository, chart
from tests.support.lossy_delivery import lossy_functions, sweep, with_seeds
from tests.support.planes import running_plane
from tests.support.registry import certificate
from tests.support.until import logged, until

CLUSTERS = ("one", "two", "three")
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Values.name }}"}
data: {k: "{{ .Chart.Version }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Values.name }}-of-{{ .Chart.Version }}"}
data: {k: "{{ .Chart.Version }}"}
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    with_seeds(metafunc)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts a control plane for this module: the forwarder and the sweep would reconcile objects of other tests."""
    with running_plane(tmp_path_factory.mktemp("chaos") / "management") as folder:
        yield local_control_plane.kubeconfig(folder)


class Fleet:
    """Clusters that share one API server, where each chart and each set has its own namespace."""

    def __init__(self, client: Client, kubeconfig: Path, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.apps, self.extras = f"{namespace}-apps", f"{namespace}-extras"
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.extras))
        for name in CLUSTERS:
            secret = objects.secret(f"{name}-kubeconfig", namespace, value=kubeconfig.read_text())
            client.create(SECRET, secret)
            client.create(CLUSTER, objects.manifest(CLUSTER, name, namespace, metadata={"labels": {"web": "yes"}}))
            status = {"status": {"initialization": {"controlPlaneInitialized": True}}}
            client.patch(CLUSTER, Key(namespace, name), status, subresource="status")

    def install(self, url: str) -> None:
        selector: Object = {"matchLabels": {"web": "yes"}}
        spec: Object = {
            "clusterSelector": selector,
            "chartName": "web",
            "repoURL": url,
            "namespace": self.apps,
            "version": "1.0.0",
            "valuesTemplate": "name: {{ .Cluster.metadata.name }}\n",
        }
        self.client.create(HELM_CHART_PROXY, objects.manifest(HELM_CHART_PROXY, "web", self.namespace, spec=spec))
        self.write_source("1.0.0")
        spec = {
            "clusterSelector": selector,
            "strategy": "Reconcile",
            "resources": [{"kind": "ConfigMap", "name": "source"}],
        }
        self.client.create(
            CLUSTER_RESOURCE_SET, objects.manifest(CLUSTER_RESOURCE_SET, "set", self.namespace, spec=spec)
        )

    def write_source(self, version: str) -> None:
        text = yaml.safe_dump(objects.manifest(CONFIG_MAP, "extra", self.extras, data={"k": version}))
        source = objects.manifest(CONFIG_MAP, "source", self.namespace, data={"extra.yaml": text})
        self.client.apply(CONFIG_MAP, source, manager="user")

    def upgrade(self, version: str) -> None:
        self.client.patch(HELM_CHART_PROXY, Key(self.namespace, "web"), {"spec": {"version": version}})
        self.write_source(version)

    def deselect(self, name: str) -> None:
        self.client.patch(CLUSTER, Key(self.namespace, name), {"metadata": {"labels": {"web": None}}})

    def delete(self) -> None:
        self.client.delete(HELM_CHART_PROXY, Key(self.namespace, "web"))
        self.client.delete(CLUSTER_RESOURCE_SET, Key(self.namespace, "set"))

    def values(self, namespace: str) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["data"]["k"] for obj in self.client.list(CONFIG_MAP, namespace)}

    def has(self, version: str, names: tuple[str, ...]) -> bool:
        """Returns whether the clusters have the objects of the version, and the statuses show it."""
        releases = list(self.client.list(HELM_RELEASE_PROXY, self.namespace))
        ready = [
            dig(one, "status.chartVersion") == version and is_true(dig(one, "status.conditions"), "Ready")
            for one in releases
        ]
        wanted = {name: version for cluster in names for name in (cluster, f"{cluster}-of-{version}")}
        return (
            all(ready)
            and {dig(one, "spec.clusterRef.name") for one in releases} == {*names}
            and self.values(self.apps) == wanted
            and self.values(self.extras) == {"extra": version}
        )

    def is_gone(self) -> bool:
        """Returns whether no object of the chart is left; what a set has applied stays, as in Cluster API."""
        kinds = (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER_RESOURCE_SET, CLUSTER_RESOURCE_SET_BINDING)
        left = [obj for kind in kinds for obj in self.client.list(kind, self.namespace)]
        records = list(self.client.list(SECRET, self.apps))
        return not left and not records and not self.values(self.apps)


def test_charts_and_sets_end_the_same_when_two_of_five_events_are_lost(
    management: Client,
    namespace: str,
    kubeconfig: Path,
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chaos_seed: int,
) -> None:
    certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    repository = ChartRepository()
    for version in ("1.0.0", "2.0.0"):
        repository.add("web", version, chart("web", version, {"templates/map.yaml": TEMPLATE}))
    fleet, log = Fleet(management, kubeconfig, namespace), tmp_path / "functions.log"
    with repository.serve(tmp_path) as site, lossy_functions(management, log, monkeypatch, chaos_seed) as deliveries:
        lossy, reliable = deliveries
        numbers = itertools.count(1)

        def swept_until(reached: Callable[[], object], what: str) -> None:
            until(reached, what, pause=0.5, between=lambda: sweep(reliable, next(numbers)), details=logged(log))

        fleet.install(f"{site.url}/repo")
        swept_until(lambda: fleet.has("1.0.0", CLUSTERS), "the first version")
        fleet.upgrade("2.0.0")
        swept_until(lambda: fleet.has("2.0.0", CLUSTERS), "the second version")
        fleet.deselect("two")
        swept_until(lambda: fleet.has("2.0.0", ("one", "three")), "the deselection")
        fleet.delete()
        swept_until(fleet.is_gone, "the deletion")
        assert lossy.lost > 0
