"""HelmChartProxies on a real API server: from Clusters to HelmReleaseProxies, and back."""

from __future__ import annotations

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.helm_proxies.names import HCP_FINALIZER, HCP_NAME_LABEL, HRP_FINALIZER
from shared.kube import Key, Object
from shared.kube.resources import dig
from tests.support import objects
from tests.support.chart_proxies import Charts

TEMPLATE = "domain: {{ .Cluster.spec.clusterNetwork.serviceDomain }}\nzone: {{ .Cluster.metadata.labels.zone }}\n"


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
