"""HelmChartProxies on a real API server: from Clusters to HelmReleaseProxies, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions import catalog
from shared import cluster_wake
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.event import Event, change_event
from shared.helm_proxies.names import HCP_FINALIZER, HCP_NAME_LABEL, HRP_FINALIZER
from shared.kube import Client, Key, Object
from shared.kube.resources import dig
from shared.runtime import Answer
from tests.support import objects
from tests.support.event_receiver import EventReceiver

REPOSITORY = {"chartName": "metrics", "repoURL": "https://charts.example.org"}
TEMPLATE = "domain: {{ .Cluster.spec.clusterNetwork.serviceDomain }}\nzone: {{ .Cluster.metadata.labels.zone }}\n"


@dataclass
class Charts:
    """A namespace with Clusters and HelmChartProxies."""

    client: Client
    clients: Clients
    namespace: str
    sink: EventReceiver
    answers: list[Answer] = field(default_factory=list)

    def cluster(self, name: str, domain: str = "cluster.local", **labels: str) -> Object:
        spec = {"clusterNetwork": {"serviceDomain": domain}}
        return self.client.create(
            CLUSTER, objects.manifest(CLUSTER, name, self.namespace, metadata={"labels": labels}, spec=spec)
        )

    def proxy(self, name: str = "metrics", **spec: Any) -> Object:
        wanted = {"clusterSelector": {"matchLabels": {"metrics": "yes"}}, **REPOSITORY, **spec}
        return self.client.create(
            HELM_CHART_PROXY, objects.manifest(HELM_CHART_PROXY, name, self.namespace, spec=wanted)
        )

    def reconcile(self, name: str = "metrics") -> Object | None:
        """Delivers an event about the HelmChartProxy; returns what is stored then."""
        key = Key(self.namespace, name)
        self.send("helm_chart_proxy", change_event(self.client.get(HELM_CHART_PROXY, key), "update", source="/test"))
        return self.client.find(HELM_CHART_PROXY, key)

    def send(self, function: str, event: Event) -> Answer:
        answer = catalog.handler(function)(self.clients, event)
        assert answer.status in (200, 202, 204), answer.message
        self.answers.append(answer)
        return answer

    def wake(self, cluster: Object) -> list[tuple[str, str]]:
        """Delivers a change of a Cluster, and the events that follow; returns kind and name of the woken objects."""
        self.sink.received.clear()
        self.send("cluster_wake", change_event(cluster, "update", source="/test"))
        woken = [event for _, event, _ in self.sink.received]
        for event in woken:
            assert event.type == cluster_wake.CHANGED
            if event.kind == HELM_CHART_PROXY.kind:
                self.send("helm_chart_proxy", event)
        return sorted((event.kind, event.name) for event in woken)

    def patch(self, resource: Any, name: str, patch: Object, subresource: str = "") -> Object:
        return self.client.patch(resource, Key(self.namespace, name), patch, subresource=subresource)

    def releases(self) -> dict[str, Object]:
        """Returns the HelmReleaseProxies by Cluster."""
        found = self.client.list(HELM_RELEASE_PROXY, self.namespace)
        return {release["spec"]["clusterRef"]["name"]: release for release in found}

    def report(self, status: str = "True", message: str = "") -> None:
        """Reports the condition Ready of all releases, as `helm_release_proxy` does."""
        for release in self.releases().values():
            condition = {"type": "Ready", "status": status, "reason": "R", "message": message}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            observed = release["metadata"]["generation"]
            body = {"status": {"observedGeneration": observed, "conditions": [condition]}}
            self.patch(HELM_RELEASE_PROXY, release["metadata"]["name"], body, "status")


@pytest.fixture
def charts(management: Client, clients: Clients, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Charts]:
    with EventReceiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        yield Charts(management, clients, namespace, sink)
    for resource in (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER):
        for obj in list(management.list(resource, namespace)):
            objects.remove(management, resource, Key(namespace, obj["metadata"]["name"]))


def ready(proxy: Object | None) -> list[tuple[str, str]]:
    return [(one["status"], one["reason"]) for one in dig(proxy, "status.conditions", [])]


def test_selected_clusters_get_releases_which_follow_the_chart_proxy(charts: Charts) -> None:
    charts.cluster("one", metrics="yes", zone="a")
    charts.cluster("two", domain="two.local", metrics="yes")
    charts.cluster("other", metrics="no")
    charts.proxy(valuesTemplate=TEMPLATE, valuesFrom=[{"kind": "ConfigMap", "name": "v-{{ .Cluster.metadata.name }}"}])
    stored = charts.reconcile()
    releases = charts.releases()
    assert {name: release["spec"]["values"] for name, release in releases.items()} == {
        "one": "domain: cluster.local\nzone: a\n",
        "two": "domain: two.local\nzone: <no value>\n",
    }
    assert releases["one"]["spec"]["valuesFrom"] == [{"kind": "ConfigMap", "name": "v-one", "key": "values.yaml"}]
    assert releases["one"]["metadata"]["labels"] == {CLUSTER_NAME_LABEL: "one", HCP_NAME_LABEL: "metrics"}
    assert HCP_FINALIZER in dig(stored, "metadata.finalizers", [])
    assert [one["name"] for one in dig(stored, "status.matchingClusters")] == ["one", "two"]
    assert ready(stored)[2] == ("False", "HelmReleaseProxySpecsUpdating")

    charts.report()
    stored = charts.reconcile()
    assert ready(stored) == [("True", "InfoReported"), ("True", "InfoReported"), ("True", "UpToDate")]
    sent = charts.client.requests
    charts.reconcile()
    assert charts.client.requests == sent + 2, "the test's own reads only"

    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "2.0.0", "options": {"wait": True}}})
    charts.reconcile()
    for release in charts.releases().values():
        assert release["spec"]["version"] == "2.0.0"
        assert release["spec"]["options"]["wait"] is True
        assert release["metadata"]["uid"] in {one["metadata"]["uid"] for one in releases.values()}


def test_change_of_a_cluster_wakes_whatever_depends_on_it(charts: Charts) -> None:
    one = charts.cluster("one", metrics="yes")
    charts.proxy(valuesTemplate=TEMPLATE)
    charts.proxy("unrelated", clusterSelector={"matchLabels": {"nobody": "has"}})
    assert charts.wake(one) == [("HelmChartProxy", "metrics")]
    release = charts.releases()["one"]
    labelled = charts.patch(CLUSTER, "one", {"metadata": {"labels": {"zone": "b"}}})
    assert charts.wake(labelled) == [
        ("HelmChartProxy", "metrics"),
        ("HelmReleaseProxy", release["metadata"]["name"]),
    ]
    assert "zone: b" in charts.releases()["one"]["spec"]["values"]

    # A Cluster that leaves the selection wakes the HelmChartProxy whose status names it.
    left = charts.patch(CLUSTER, "one", {"metadata": {"labels": {"metrics": None}}})
    assert ("HelmChartProxy", "metrics") in charts.wake(left)
    assert charts.releases() == {}


def test_paused_cluster_keeps_its_release(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy()
    charts.reconcile()
    charts.patch(CLUSTER, "one", {"metadata": {"labels": {"metrics": None}}, "spec": {"paused": True}})
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "3.0.0"}})
    charts.reconcile()
    assert charts.releases()["one"]["spec"].get("version") is None
    charts.patch(CLUSTER, "one", {"spec": {"paused": False}})
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "3.0.1"}})
    charts.reconcile()
    assert charts.releases() == {}


def test_broken_template_of_one_cluster_holds_up_no_other(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.cluster("two", metrics="yes", zone="b")
    charts.proxy(valuesTemplate='zone: {{ required "no zone" .Cluster.metadata.labels.zone }}')
    stored = charts.reconcile()
    assert list(charts.releases()) == ["two"]
    assert ready(stored)[2] == ("False", "ValueParsingFailed")
    message = objects.condition(stored or {}, "HelmReleaseProxySpecsUpToDate")["message"]
    assert "metrics-one" in message
    assert "no zone" in message


def test_other_chart_is_installed_anew(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy()
    charts.reconcile()
    before = charts.releases()["one"]["metadata"]
    charts.patch(HELM_RELEASE_PROXY, before["name"], {"metadata": {"finalizers": [HRP_FINALIZER]}})
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"chartName": "other"}})
    assert ready(charts.reconcile())[2] == ("False", "HelmReleaseProxyReinstalling")
    charts.patch(HELM_RELEASE_PROXY, before["name"], {"metadata": {"finalizers": None}})
    charts.reconcile()
    after = charts.releases()["one"]
    assert after["spec"]["chartName"] == "other"
    assert after["metadata"]["uid"] != before["uid"]


def test_deletion_waits_until_the_charts_are_uninstalled(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy()
    charts.reconcile()
    release = charts.releases()["one"]["metadata"]["name"]
    charts.patch(HELM_RELEASE_PROXY, release, {"metadata": {"finalizers": [HRP_FINALIZER]}})
    charts.client.delete(HELM_CHART_PROXY, Key(charts.namespace, "metrics"))
    charts.reconcile()
    charts.report("False", "the cluster does not answer")
    stored = charts.reconcile()
    assert "the cluster does not answer" in objects.condition(stored or {}, "Ready")["message"]
    charts.patch(HELM_RELEASE_PROXY, release, {"metadata": {"finalizers": None}})
    assert charts.reconcile() is None


def test_invalid_selector_selects_nothing(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy(clusterSelector={"matchExpressions": [{"key": "metrics", "operator": "Has"}]})
    assert ready(charts.reconcile())[-1] == ("False", "ClusterSelectionFailed")
    assert charts.releases() == {}
