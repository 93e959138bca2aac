"""The HelmReleaseProxy of a Cluster; the cases are those of Cluster API Addon Provider Helm, and its defects."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shared.helm_proxies import construction
from shared.helm_proxies.construction import Change, Rendered
from shared.helm_proxies.names import CLUSTER_NAME_LABEL, HCP_NAME_LABEL, INSTALLED, RELEASE_NAME_GENERATED
from shared.helm_proxies.selection import orphans
from shared.kube import Object

SPACE = "test-namespace"
CLUSTER: Object = {"metadata": {"name": "test-cluster", "namespace": SPACE, "uid": "c"}}
CAAPH_OPTIONS = {
    "enableClientCache": False,
    "timeout": "10m0s",
    "install": {"createNamespace": True},
    "upgrade": {"maxHistory": 10},
    "uninstall": {},
}
"""Options as Cluster API Addon Provider Helm and the defaults of the CRD write them."""
IDENTITY = {
    "chartName": "test-chart-name",
    "repoURL": "https://test-repo-url",
    "releaseName": "test-release-name",
    "namespace": "test-release-namespace",
}


def chart_proxy(**spec: Any) -> Object:
    return {
        "apiVersion": "addons.cluster.x-k8s.io/v1alpha1",
        "kind": "HelmChartProxy",
        "metadata": {"name": "test-hcp", "namespace": SPACE, "uid": "h"},
        "spec": {"clusterSelector": {}, **IDENTITY, "version": "test-version", **spec},
    }


def release_proxy(*annotations: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {
            "name": "test-generated-name",
            "namespace": SPACE,
            "annotations": dict.fromkeys(annotations, "true"),
            "labels": labels or {},
        },
        "spec": {
            "clusterRef": {"name": "test-cluster", "namespace": SPACE},
            **IDENTITY,
            "version": "test-version",
            "values": "a: 1",
            **spec,
        },
    }


RENDERED = Rendered("a: 1", "test-version")


def changed(proxy: Object, existing: Object | None, rendered: Rendered = RENDERED) -> Change:
    return construction.change(proxy, CLUSTER, existing, rendered)


def test_new_release_has_names_labels_and_owner() -> None:
    made = changed(chart_proxy(), None)
    assert made.kind == "create"
    assert made.body["metadata"] == {
        "name": construction.release_proxy_name("test-hcp", "test-cluster"),
        "namespace": SPACE,
        "labels": {CLUSTER_NAME_LABEL: "test-cluster", HCP_NAME_LABEL: "test-hcp"},
        "ownerReferences": [
            {
                "apiVersion": "addons.cluster.x-k8s.io/v1alpha1",
                "kind": "HelmChartProxy",
                "name": "test-hcp",
                "uid": "h",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "test-cluster"}
    assert made.body["spec"] == {
        "clusterRef": {**reference, "namespace": SPACE},
        **IDENTITY,
        "version": "test-version",
        "values": "a: 1",
    }


def test_new_release_without_a_name_gets_one_that_stays() -> None:
    proxy = chart_proxy(releaseName="")
    made = changed(proxy, None).body
    assert re.fullmatch(r"test-chart-name-[0-9a-f]{10}", made["spec"]["releaseName"])
    assert made["metadata"]["annotations"] == {RELEASE_NAME_GENERATED: "true"}
    assert changed(proxy, made) == Change("none")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        pytest.param({"namespace": None}, {"namespace": "default"}, id="release namespace"),
        pytest.param(
            {"credentials": {"secret": {"name": "s"}, "key": ""}},
            {"credentials": {"secret": {"name": "s", "namespace": SPACE}, "key": "config.json"}},
            id="credentials, defaults",
        ),
        pytest.param(
            {"credentials": {"secret": {"name": "s", "namespace": "other"}, "key": "k"}},
            {"credentials": {"secret": {"name": "s", "namespace": "other"}, "key": "k"}},
            id="credentials, own namespace and key",
        ),
        pytest.param(
            {"tlsConfig": {"insecureSkipTLSVerify": True}},
            {"tlsConfig": {"insecureSkipTLSVerify": True}},
            id="insecure TLS",
        ),
        pytest.param(
            {"tlsConfig": {"caSecret": {"name": "ca"}}},
            {"tlsConfig": {"caSecret": {"name": "ca", "namespace": SPACE}}},
            id="CA",
        ),
        pytest.param(
            {"reconcileStrategy": "InstallOnce"}, {"reconcileStrategy": "InstallOnce"}, id="strategy InstallOnce"
        ),
        pytest.param(
            {"options": {"install": {"createNamespace": False}, "upgrade": {"maxHistory": 0}}},
            {"options": {"install": {"createNamespace": False}, "upgrade": {"maxHistory": 0}}},
            id="explicit false and 0",
        ),
    ],
)
def test_new_release_has_what_the_chart_proxy_has(given: Object, made: Object) -> None:
    spec = changed(chart_proxy(**given), None).body["spec"]
    assert {name: spec[name] for name in made} == made


def test_sources_of_values_get_their_names_for_the_cluster() -> None:
    proxy = chart_proxy(valuesFrom=[{"kind": "Secret", "name": "v-{{ .Cluster.metadata.name }}", "key": "values.yaml"}])
    made = changed(proxy, None, Rendered("", "", ("v-test-cluster",)))
    assert made.body["spec"]["valuesFrom"] == [{"kind": "Secret", "name": "v-test-cluster", "key": "values.yaml"}]


@pytest.mark.parametrize(
    ("proxy", "existing"),
    [
        pytest.param(chart_proxy(), release_proxy(), id="equal"),
        pytest.param(chart_proxy(), release_proxy(options=CAAPH_OPTIONS), id="written by the original controller"),
        pytest.param(chart_proxy(reconcileStrategy="Continuous"), release_proxy(), id="default strategy"),
        pytest.param(chart_proxy(tier=100), release_proxy(), id="default tier"),
        pytest.param(chart_proxy(options={"atomic": True}), release_proxy(options={"atomic": True, "wait": True})),
        pytest.param(chart_proxy(options={"timeout": "10m"}), release_proxy(options={"timeout": "10m0s"})),
        pytest.param(chart_proxy(options={"timeout": "90s"}), release_proxy(options={"timeout": "1m30s"})),
        pytest.param(chart_proxy(options={"timeout": "soon"}), release_proxy(options={"timeout": "soon"})),
        pytest.param(
            chart_proxy(credentials={"secret": {"name": "s"}, "key": ""}),
            release_proxy(credentials={"secret": {"name": "s", "namespace": SPACE}, "key": "config.json"}),
            id="default credentials",
        ),
    ],
)
def test_release_that_means_the_same_stays(proxy: Object, existing: Object) -> None:
    assert changed(proxy, existing) == Change("none")


@pytest.mark.parametrize(
    ("proxy", "existing", "rendered", "patch"),
    [
        pytest.param(
            chart_proxy(), release_proxy(), Rendered("a: 1", "another"), {"version": "another"}, id="other version"
        ),
        pytest.param(
            chart_proxy(), release_proxy(), Rendered("b: 2", "test-version"), {"values": "b: 2"}, id="other values"
        ),
        pytest.param(chart_proxy(), release_proxy(), Rendered("", "test-version"), {"values": None}, id="no values"),
        pytest.param(chart_proxy(tier=50), release_proxy(), RENDERED, {"tier": 50}, id="lower tier"),
        pytest.param(chart_proxy(), release_proxy(tier=50), RENDERED, {"tier": None}, id="default tier again"),
        pytest.param(
            chart_proxy(options={"wait": True}),
            release_proxy(options={"atomic": True, "install": {"includeCRDs": True}}),
            RENDERED,
            {"options": {"wait": True, "atomic": None, "install": None}},
            id="options alone",
        ),
        pytest.param(
            chart_proxy(options={"install": {"createNamespace": False}}),
            release_proxy(options=CAAPH_OPTIONS),
            RENDERED,
            {
                "options": {
                    "install": {"createNamespace": False},
                    "enableClientCache": None,
                    "timeout": None,
                    "upgrade": None,
                    "uninstall": None,
                }
            },
            id="explicit false",
        ),
        pytest.param(
            chart_proxy(tlsConfig={"insecureSkipTLSVerify": True}),
            release_proxy(tlsConfig={"caSecret": {"name": "ca", "namespace": SPACE}}),
            RENDERED,
            {"tlsConfig": {"insecureSkipTLSVerify": True, "caSecret": None}},
            id="TLS alone",
        ),
        pytest.param(
            chart_proxy(),
            release_proxy(credentials={"secret": {"name": "s"}, "key": "k"}),
            RENDERED,
            {"credentials": None},
            id="credentials removed",
        ),
    ],
)
def test_changed_fields_reach_the_release(proxy: Object, existing: Object, rendered: Rendered, patch: Object) -> None:
    assert changed(proxy, existing, rendered) == Change("patch", {"spec": patch})


def test_release_gets_the_label_of_the_watch_filter() -> None:
    proxy = chart_proxy()
    proxy["metadata"]["labels"] = {"cluster.x-k8s.io/watch-filter": "blue", "other": "x"}
    assert changed(proxy, None).body["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"] == "blue"
    labels = {"cluster.x-k8s.io/watch-filter": "blue"}
    assert changed(proxy, release_proxy()) == Change("patch", {"metadata": {"labels": labels}})
    assert changed(proxy, release_proxy(labels=labels)) == Change("none")


@pytest.mark.parametrize(
    ("proxy", "existing", "reinstalls"),
    [
        pytest.param(chart_proxy(), release_proxy(), False, id="equal"),
        pytest.param(chart_proxy(chartName="another"), release_proxy(), True, id="chart"),
        pytest.param(chart_proxy(repoURL="https://another"), release_proxy(), True, id="repository"),
        pytest.param(
            chart_proxy(releaseName="given"),
            release_proxy(RELEASE_NAME_GENERATED, releaseName="generated"),
            True,
            id="name given after one was generated",
        ),
        pytest.param(
            chart_proxy(releaseName=""),
            release_proxy(RELEASE_NAME_GENERATED, releaseName="generated"),
            False,
            id="name still generated",
        ),
        pytest.param(chart_proxy(releaseName="another"), release_proxy(), True, id="name"),
        pytest.param(chart_proxy(namespace="another"), release_proxy(), True, id="namespace"),
        pytest.param(chart_proxy(namespace=None), release_proxy(namespace="default"), False, id="default namespace"),
        pytest.param(
            chart_proxy(chartName="another", reconcileStrategy="InstallOnce"),
            release_proxy(reconcileStrategy="InstallOnce"),
            False,
            id="InstallOnce",
        ),
    ],
)
def test_release_with_another_identity_is_reinstalled(proxy: Object, existing: Object, reinstalls: bool) -> None:
    assert construction.must_reinstall(proxy, existing) is reinstalls
    assert (changed(proxy, existing).kind == "reinstall") is reinstalls


@pytest.mark.parametrize(("annotations", "kind"), [((INSTALLED,), "none"), ((), "patch")])
def test_installed_once_the_release_stays(annotations: tuple[str, ...], kind: str) -> None:
    proxy = chart_proxy(reconcileStrategy="InstallOnce")
    existing = release_proxy(*annotations, reconcileStrategy="InstallOnce")
    assert changed(proxy, existing, Rendered("b: 2", "another")).kind == kind


@pytest.mark.parametrize(
    ("selected", "left"), [(["one", "two"], []), (["one"], ["two"]), ([], ["one", "two"])], ids=["none", "one", "both"]
)
def test_releases_of_clusters_that_are_not_selected_are_orphans(selected: list[str], left: list[str]) -> None:
    releases = [release_proxy(clusterRef={"name": name}) for name in ("one", "two")]
    found = orphans(releases, [{"metadata": {"name": name}} for name in selected])
    assert [release["spec"]["clusterRef"]["name"] for release in found] == left


def test_names_are_bounded_and_do_not_collide() -> None:
    long = construction.release_proxy_name("h" * 253, "c" * 63)
    assert len(long) <= 63
    assert construction.release_proxy_name("a-b", "c") != construction.release_proxy_name("a", "b-c")
    assert construction.name_as_label("h" * 63) == "h" * 63
    labels = {construction.name_as_label("h" * 100 + end) for end in "ab"}
    assert len(labels) == 2
    assert all(len(label) <= 63 for label in labels)
