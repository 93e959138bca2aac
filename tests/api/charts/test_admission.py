"""The rules of the API server for HelmChartProxies and HelmReleaseProxies, as the webhooks of upstream have them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from shared.api.resources import HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.kube import ApiError, Key, Object
from tests.support import objects
from tests.support.chart_proxies import REPOSITORY, Charts

URLS = {
    "https://charts.example.com/stable": True,
    "HTTPS://charts.example.com": True,
    "https://charts.example.com:8443": True,
    "oci://registry.example.com/charts": True,
    "OCI://registry.example.com/charts": False,
    "http://charts.example.com": False,
    "ftp://charts.example.com": False,
    "file:///etc/passwd": False,
    "/some/local/path": False,
    "charts.example.com": False,
    "https:///charts": False,
    "https://:443/charts": False,
    "oci://:443/charts": False,
    "": False,
}


def release(charts: Charts, **spec: object) -> Object:
    reference = {"kind": "Cluster", "name": "one"}
    body = {"clusterRef": reference, "releaseName": "web", **REPOSITORY, **spec}
    return charts.client.create(
        HELM_RELEASE_PROXY, objects.manifest(HELM_RELEASE_PROXY, "web", charts.namespace, spec=body)
    )


@pytest.mark.parametrize("kind", [HELM_CHART_PROXY, HELM_RELEASE_PROXY], ids=lambda kind: kind.kind)
def test_urls_of_repositories(charts: Charts, kind: object) -> None:
    accepted = {}
    for number, url in enumerate(URLS):
        try:
            if kind is HELM_CHART_PROXY:
                charts.proxy(f"web-{number}", repoURL=url)
            else:
                release(charts, repoURL=url)
                charts.client.delete(HELM_RELEASE_PROXY, Key(charts.namespace, "web"))
            accepted[url] = True
        except ApiError:
            accepted[url] = False
    assert accepted == URLS


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param(None, "InstallOnce", True, id="set"),
        pytest.param("", "Continuous", True, id="empty, then set"),
        pytest.param("InstallOnce", "Continuous", True, id="changed"),
        pytest.param("InstallOnce", None, True, id="removed"),
        pytest.param("InstallOnce", "InstallOnce", False, id="equal"),
        pytest.param(None, "", False, id="both empty"),
    ],
)
def test_strategy_cannot_change(charts: Charts, before: str | None, after: str | None, refused: bool) -> None:
    given = {} if before is None else {"reconcileStrategy": before}
    charts.proxy("web", **given)
    release(charts, **given)
    for kind in (HELM_CHART_PROXY, HELM_RELEASE_PROXY):
        with pytest.raises(ApiError, match=r"reconcileStrategy cannot change") if refused else nullcontext():
            charts.patch(kind, "web", {"spec": {"reconcileStrategy": after}})


@pytest.mark.parametrize(
    ("given", "change", "refused"),
    [
        pytest.param({}, {"repoURL": "https://other.example.org"}, "spec.repoURL", id="repository"),
        pytest.param({}, {"chartName": "other"}, "spec.chartName", id="chart"),
        pytest.param({}, {"namespace": "other"}, "spec.namespace", id="namespace is set"),
        pytest.param({"namespace": "a"}, {"namespace": None}, "spec.namespace", id="namespace is removed"),
        pytest.param({}, {"namespace": "default"}, "", id="the default namespace"),
        pytest.param({"namespace": "default"}, {"namespace": ""}, "", id="the default namespace is emptied"),
        pytest.param({}, {"releaseName": "other"}, "", id="name of the release"),
        pytest.param({}, {"version": "2.0.0", "values": "a: b"}, "", id="version and values"),
    ],
)
def test_identity_of_a_release_cannot_change(charts: Charts, given: Object, change: Object, refused: str) -> None:
    release(charts, **given)
    with pytest.raises(ApiError, match=f"{refused} cannot change") if refused else nullcontext():
        charts.patch(HELM_RELEASE_PROXY, "web", {"spec": change})
