"""ClusterRollouts, and charts that go before their Cluster, beside the unmodified manager of Cluster API core.

The test plays the controllers of infrastructure and control planes, which have nothing to do but to report.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.api.conditions import READY, get_condition, is_true
from shared.api.resources import CLUSTER, CLUSTER_ROLLOUT, CONFIG_MAP, EVENT, HELM_CHART_PROXY, NAMESPACE
from shared.cluster_rollouts import why_unready
from shared.kube import Key, Object, deleting, dig
from tests.support import external_cluster
from tests.support.chart_repository import ChartRepository, chart
from tests.support.live_core import OURS, LiveCore, live_core
from tests.support.objects import manifest
from tests.support.registry import certificate
from tests.support.until import until

pytestmark = pytest.mark.timeout(1800)
OLD, NEW = "v1.36.0", "v1.37.0"
FIRST, SECOND = "first", "second"


@pytest.fixture(scope="module")
def repository() -> ChartRepository:
    return ChartRepository()


@pytest.fixture(scope="module")
def chart_site(repository: ChartRepository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serves the charts; yields the URL, and the CA of the server."""
    folder = tmp_path_factory.mktemp("charts")
    certificate(folder)
    with repository.serve(folder) as site:
        yield f"{site.url}/repo", folder / "ca.crt"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, chart_site: tuple[str, Path]) -> Iterator[LiveCore]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(chart_site[1]))
        with live_core(tmp_path_factory.mktemp("live-core"), patch, "core") as core:
            external_cluster.install(core.client)
            yield core


class Fleet:
    """Clusters of one namespace, and their two classes."""

    def __init__(self, core: LiveCore, *names: str, **labels: str) -> None:
        self.core, self.client, self.namespace = core, core.client, f"test-{uuid.uuid4().hex[:8]}"
        core.apply(manifest(NAMESPACE, self.namespace))
        for each in (FIRST, SECOND):
            core.apply(*external_cluster.class_objects(each, self.namespace))
        for name in names:
            metadata = {"labels": {"name": name, **labels}}
            spec = {"topology": {"classRef": {"name": FIRST}, "version": OLD}}
            core.apply(manifest(CLUSTER, name, self.namespace, metadata=metadata, spec=spec))
        self.until(lambda: not self.unready(), "the Clusters are ready")

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def clusters(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self.client.list(CLUSTER, self.namespace)}

    def unready(self) -> dict[str, str]:
        """Returns why Clusters are not ready, by their names."""
        found = {name: why_unready(cluster, None) for name, cluster in self.clusters().items()}
        return {name: reason for name, reason in found.items() if reason}

    def topologies(self) -> dict[str, tuple[str, str]]:
        """Returns class and version of each Cluster."""
        found = self.clusters().items()
        paths = ("spec.topology.classRef.name", "spec.topology.version")
        return {name: (dig(cluster, paths[0]), dig(cluster, paths[1])) for name, cluster in found}

    def report(self) -> None:
        external_cluster.reconcile(self.client, self.namespace, self.core.kubeconfig)

    def until(self, reached: Callable[[], object], what: str, between: Callable[[], object] | None = None) -> None:
        until(reached, what, between=between or self.report, details=self.details)

    def details(self) -> object:
        rollouts = [dig(one, "status") for one in self.client.list(CLUSTER_ROLLOUT, self.namespace)]
        return self.unready(), self.topologies(), rollouts


def test_classes_and_versions_move_wave_by_wave_beside_core(core: LiveCore) -> None:
    fleet = Fleet(core, "a", "b", "c")
    target = {"classRef": {"name": SECOND}, "version": NEW}
    canary = {"name": "canary", "clusterSelector": {"matchLabels": {"name": "c"}}}
    strategy = {"maxUnavailable": 1, "partitions": [canary]}
    spec = {"clusterSelector": {}, "topology": target, "rolloutStrategy": strategy}
    before = len(core.audit.writes())
    core.apply(manifest(CLUSTER_ROLLOUT, "next", fleet.namespace, spec=spec))

    def ready() -> Object:
        found = core.client.get(CLUSTER_ROLLOUT, fleet.key("next"))
        return get_condition(dig(found, "status.conditions"), READY) or {}

    def waits_for_the_canary() -> bool:
        return "not ready: c: " in ready().get("message", "")

    def one_at_a_time() -> None:
        assert len(fleet.unready()) <= 1, fleet.details()
        fleet.report()

    old, new = (FIRST, OLD), (SECOND, NEW)
    fleet.until(waits_for_the_canary, "the canary is upgraded", between=lambda: None)
    assert fleet.topologies() == {"a": old, "b": old, "c": new}
    fleet.until(lambda: ready().get("status") == "True", "all Clusters are moved", between=one_at_a_time)
    assert fleet.topologies() == dict.fromkeys("abc", new)
    planes = [dig(plane, "status.version") for plane in core.client.list(external_cluster.PLANE, fleet.namespace)]
    assert planes == [NEW] * 3
    writes = [name for user, name in core.audit.writes()[before:] if user == OURS]
    moves = [name.split("/")[2] for name in writes if name.startswith(f"clusters/{fleet.namespace}/")]
    assert [name for name, _ in itertools.groupby(moves)] == ["c", "a", "b"]
    assert [name for name in core.audit.written_in_turns() if "clusterrollouts" in name] == []
    core.client.delete(CLUSTER_ROLLOUT, fleet.key("next"))
    for name in "abc":
        core.client.delete(CLUSTER, fleet.key(name))
    fleet.until(lambda: not fleet.clusters(), "the Clusters are gone")


def test_charts_are_uninstalled_before_core_deletes_their_cluster(
    core: LiveCore, repository: ChartRepository, chart_site: tuple[str, Path]
) -> None:
    repository.add("web", "1.0.0", chart("web", "1.0.0"))
    core.enable_hooks()
    fleet = Fleet(core, "demo", web="yes")
    installed = Key(f"{fleet.namespace}-apps", "demo")
    spec = {
        "clusterSelector": {"matchLabels": {"web": "yes"}},
        "chartName": "web",
        "repoURL": chart_site[0],
        "version": "1.0.0",
        "namespace": installed.namespace,
        "clusterDeletion": {"policy": "Uninstall"},
    }
    core.apply(manifest(HELM_CHART_PROXY, "web", fleet.namespace, spec=spec))

    def is_ready() -> bool:
        proxy = core.client.get(HELM_CHART_PROXY, fleet.key("web"))
        return is_true(dig(proxy, "status.conditions"), "Ready")

    def chart_goes_first() -> None:
        """Asserts that core deletes nothing of the Cluster while the chart is installed."""
        kinds = (external_cluster.PLANE, external_cluster.CLUSTER)
        found = [obj for kind in kinds for obj in core.client.list(kind, fleet.namespace)]
        if len(found) < len(kinds) or any(map(deleting, found)):
            assert core.client.find(CONFIG_MAP, installed) is None, found
        fleet.report()

    fleet.until(is_ready, "the chart is installed")
    assert core.client.find(CONFIG_MAP, installed) is not None
    core.client.delete(CLUSTER, fleet.key("demo"))
    fleet.until(lambda: not fleet.clusters(), "the Cluster is gone", between=chart_goes_first)
    assert core.client.find(CONFIG_MAP, installed) is None
    called = core.hooks_called(fleet.key("demo"))["BeforeClusterDelete"]
    assert (called[0], called[-1]) == ("block", "continue")
    reasons = {event["reason"] for event in core.client.list(EVENT, fleet.namespace)}
    assert "ChartsNotUninstalled" not in reasons
    core.client.delete(HELM_CHART_PROXY, fleet.key("web"))
    fleet.until(lambda: not list(core.client.list(HELM_CHART_PROXY, fleet.namespace)), "the chart is gone")
