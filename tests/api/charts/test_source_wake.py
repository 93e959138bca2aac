"""A change of a Secret or ConfigMap starts the functions of the sets and releases that read it, and no others."""

from __future__ import annotations

from pathlib import Path

from shared.api.resources import CLUSTER_RESOURCE_SET, CONFIG_MAP, SECRET
from shared.event import change_event
from shared.kube import Key, Resource
from tests.support import objects
from tests.support.accounts import as_function
from tests.support.chart_proxies import Charts


def woken(charts: Charts, kind: Resource, name: str) -> list[tuple[str, str]]:
    """Delivers a change of a source, which the function must not need to read; returns the woken objects."""
    charts.sink.received.clear()
    changed = objects.manifest(kind, name, charts.namespace)
    charts.send("source_wake", change_event(changed, "update", source="/test", reference=True))
    return sorted((event.kind, event.name) for _, event, _ in charts.sink.received)


def test_readers_of_a_source_are_woken(charts: Charts, kubeconfig: Path) -> None:
    charts.cluster("one", metrics="yes")
    charts.cluster("two", metrics="yes")
    template = {"kind": "ConfigMap", "name": "v-{{ .Cluster.metadata.name }}", "optional": True}
    charts.proxy(valuesFrom=[template, {"kind": "Secret", "name": "shared", "optional": True}])
    charts.reconcile()
    one, two = (("HelmReleaseProxy", charts.releases()[name]["metadata"]["name"]) for name in ("one", "two"))
    spec = {"clusterSelector": {"matchLabels": {"a": "b"}}, "resources": [{"kind": "ConfigMap", "name": "v-one"}]}
    charts.client.create(
        CLUSTER_RESOURCE_SET, objects.manifest(CLUSTER_RESOURCE_SET, "set", charts.namespace, spec=spec)
    )
    charts.clients = as_function(charts.client, kubeconfig, "source_wake")
    assert woken(charts, CONFIG_MAP, "v-one") == [("ClusterResourceSet", "set"), one]
    assert woken(charts, CONFIG_MAP, "v-two") == [two]
    assert woken(charts, SECRET, "shared") == sorted([one, two])
    for kind, name in ((SECRET, "v-one"), (CONFIG_MAP, "shared"), (CONFIG_MAP, "v-three"), (SECRET, "other")):
        assert woken(charts, kind, name) == []
    charts.client.delete(CLUSTER_RESOURCE_SET, Key(charts.namespace, "set"))


def test_unrelated_sources_share_two_lists(charts: Charts) -> None:
    before = charts.client.requests
    assert woken(charts, SECRET, "any") == []
    assert charts.client.requests - before == 2
