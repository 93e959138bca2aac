"""Decisions about HelmChartProxies: releases, conditions, deletion. Cases of Cluster API Addon Provider Helm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.helm_chart_proxy.decide import decide
from functions.helm_chart_proxy.reconciled import is_reconciled
from functions.helm_chart_proxy.status import aggregate
from shared.api.conditions import get_condition
from shared.api.resources import HELM_CHART_PROXY
from shared.effects import RemoveFinalizer, Results
from shared.event import change_event
from shared.helm_proxies.construction import Rendered
from shared.helm_proxies.dependencies import find_cycle
from shared.helm_proxies.inputs import Failure, Observed
from shared.helm_proxies.names import HCP_FINALIZER, INSTALLED
from shared.helm_proxies.writes import Outcome, Write, WriteReleases
from shared.kube import ApiError, Object
from shared.runtime import Decision

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "n"


def chart_proxy(*, deleted: bool = False, annotations: Object | None = None, **spec: Any) -> Object:
    metadata: Object = {
        "name": "hcp",
        "namespace": SPACE,
        "uid": "h",
        "generation": 2,
        "finalizers": [HCP_FINALIZER],
        "annotations": annotations or {},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "apiVersion": HELM_CHART_PROXY.api_version,
        "kind": HELM_CHART_PROXY.kind,
        "metadata": metadata,
        "spec": {"clusterSelector": {}, "chartName": "c", "repoURL": "https://r", "releaseName": "rel", **spec},
    }


def cluster(name: str, *, paused: bool = False, deleted: bool = False) -> Object:
    metadata = {"name": name, "namespace": SPACE, "uid": name}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"paused": paused}}


def release(name: str, status: str = "True", message: str = "", *, observed: int = 1, **more: Any) -> Object:
    condition = {"type": "Ready", "status": status, "reason": "R", "message": message}
    return {
        "metadata": {"name": f"hcp-{name}", "namespace": SPACE, "uid": f"r-{name}", "generation": 1, **more},
        "spec": {
            "clusterRef": {"name": name, "namespace": SPACE},
            "chartName": "c",
            "repoURL": "https://r",
            "releaseName": "rel",
            "namespace": "default",
            "values": f"name: {name}",
        },
        "status": {"observedGeneration": observed, "conditions": [condition]},
    }


def observed(
    proxy: Object,
    clusters: list[Object],
    releases: list[Object],
    *,
    failures: dict[str, Failure] | None = None,
    **more: Any,
) -> Observed:
    names = [one["metadata"]["name"] for one in clusters]
    rendered = {name: Rendered(f"name: {name}") for name in names} | (failures or {})
    return Observed(proxy, clusters=tuple(clusters), releases=tuple(releases), rendered=rendered, **more)


def writes(decision: Decision) -> dict[str, str]:
    """Returns the kinds of the writes by Cluster."""
    found: list[Write] = [
        write for effect in decision.effects if isinstance(effect, WriteReleases) for write in effect.writes
    ]
    return {write.cluster: write.kind for write in found}


def told(decision: Decision) -> list[tuple[str, str, str]]:
    """Returns type, status and reason of the conditions in their order."""
    return [(one["type"], one["status"], one["reason"]) for one in (decision.status or {})["conditions"]]


def message(decision: Decision, type_: str) -> str:
    return str((get_condition((decision.status or {})["conditions"], type_) or {})["message"])


READY = [
    ("Ready", "True", "InfoReported"),
    ("HelmReleaseProxiesReady", "True", "InfoReported"),
    ("HelmReleaseProxySpecsUpToDate", "True", "UpToDate"),
]


@pytest.mark.parametrize("strategy", [None, "Continuous", "InstallOnce"])
def test_all_releases_are_ready(strategy: str | None) -> None:
    proxy = chart_proxy(reconcileStrategy=strategy)
    existing = [release("a"), release("b")]
    if strategy == "InstallOnce":
        for one in existing:
            one["spec"]["reconcileStrategy"] = strategy
    decision = decide(observed(proxy, [cluster("a"), cluster("b")], existing), NOW)
    assert not decision.effects
    assert told(decision) == READY
    status = decision.status or {}
    assert status["observedGeneration"] == 2
    assert status["matchingClusters"] == [
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "namespace": SPACE} for name in "ab"
    ]
    assert decision.requeue_after is None


def test_no_cluster_is_selected() -> None:
    decision = decide(observed(chart_proxy(), [], []), NOW)
    assert told(decision)[1] == ("HelmReleaseProxiesReady", "True", "Ready")
    assert (decision.status or {})["matchingClusters"] == []


def test_new_proxy_gets_finalizer_and_releases() -> None:
    proxy = chart_proxy()
    proxy["metadata"]["finalizers"] = []
    seen = observed(proxy, [cluster("a")], [])
    decision = decide(seen, NOW)
    assert len(decision.effects) == 2
    assert writes(decision) == {"a": "create"}
    made = {**release("a", observed=0), "status": {}}
    results = Results([(decision.effects[1], Outcome({"a": made}, {}))])
    after = decide(seen, NOW, results)
    assert told(after) == [
        ("Ready", "False", "IssuesReported"),
        ("HelmReleaseProxiesReady", "Unknown", "UnknownReported"),
        ("HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxySpecsUpdating"),
    ]


@pytest.mark.parametrize(
    ("proxy", "clusters", "releases", "more", "expected"),
    [
        pytest.param(chart_proxy(), ["a"], ["a", "b"], {}, {"b": "delete"}, id="orphan"),
        pytest.param(chart_proxy(), [], ["a", "b"], {}, {"a": "delete", "b": "delete"}, id="two orphans"),
        pytest.param(chart_proxy(reconcileStrategy="InstallOnce"), [], ["a"], {}, {}, id="orphan, InstallOnce"),
        pytest.param(chart_proxy(), [], ["a", "b"], {"paused": frozenset("a")}, {"b": "delete"}, id="paused orphan"),
        pytest.param(chart_proxy(chartName="other"), ["a"], ["a"], {}, {"a": "reinstall"}, id="reinstallation"),
        pytest.param(chart_proxy(options={"wait": True}), ["a"], ["a"], {}, {"a": "patch"}, id="options"),
    ],
)
def test_releases_follow(
    proxy: Object, clusters: list[str], releases: list[str], more: Any, expected: dict[str, str]
) -> None:
    seen = observed(proxy, [cluster(name) for name in clusters], [release(name) for name in releases], **more)
    assert writes(decide(seen, NOW)) == expected


@pytest.mark.parametrize("given", [cluster("a", paused=True), cluster("a", deleted=True)], ids=["paused", "deleted"])
def test_cluster_that_is_paused_or_deleted_counts_but_nothing_is_written(given: Object) -> None:
    decision = decide(observed(chart_proxy(chartName="other"), [given], [release("a")]), NOW)
    assert not decision.effects
    assert [one["name"] for one in (decision.status or {})["matchingClusters"]] == ["a"]
    without = decide(observed(chart_proxy(), [cluster("b"), given], [release("b")]), NOW)
    assert not without.effects
    assert told(without) == READY


def test_installed_once_a_release_stays_and_its_templates_are_not_needed() -> None:
    proxy = chart_proxy(reconcileStrategy="InstallOnce", chartName="other")
    existing = release("a", annotations={INSTALLED: "true"})
    decision = decide(Observed(proxy, clusters=(cluster("a"),), releases=(existing,)), NOW)
    assert not decision.effects
    assert told(decision) == READY


def test_reinstallation_stays_visible_until_the_release_is_back() -> None:
    seen = observed(chart_proxy(chartName="other"), [cluster("a")], [release("a")])
    decision = decide(seen, NOW)
    after = decide(seen, NOW, Results([(decision.effects[0], Outcome({}, {}))]))
    assert told(after)[2] == ("HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxyReinstalling")
    leaving = release("a", deletionTimestamp="2026-01-01T00:00:00Z")
    waiting = decide(observed(chart_proxy(chartName="other"), [cluster("a")], [leaving]), NOW)
    assert not waiting.effects
    assert told(waiting)[2] == ("HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxyReinstalling")
    assert waiting.requeue_after is None


def test_a_failing_cluster_holds_up_no_other() -> None:
    names = ("a", "b", "c")
    failures = {"a": Failure("c-a: bad character"), "b": Failure("b: InfraCluster cannot be read", temporary=True)}
    seen = observed(chart_proxy(), [cluster(name) for name in names], [], failures=failures)
    decision = decide(seen, NOW)
    assert writes(decision) == {"c": "create"}
    assert told(decision)[2] == ("HelmReleaseProxySpecsUpToDate", "False", "ValueParsingFailed")
    text = message(decision, "HelmReleaseProxySpecsUpToDate")
    assert "c-a: bad character" in text
    assert "InfraCluster cannot be read" in text
    assert decision.requeue_after == 60.0
    del failures["b"]
    assert decide(observed(chart_proxy(), [cluster("a")], [], failures=failures), NOW).requeue_after is None


def test_failed_write_is_reported_and_repeated() -> None:
    seen = observed(chart_proxy(), [cluster("a"), cluster("b")], [])
    decision = decide(seen, NOW)
    outcome = Outcome({"b": release("b")}, {"a": ApiError("refused by a webhook", status=403)})
    after = decide(seen, NOW, Results([(decision.effects[0], outcome)]))
    assert told(after)[2] == ("HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxyCreationFailed")
    assert "a: refused by a webhook" in message(after, "HelmReleaseProxySpecsUpToDate")
    assert after.requeue_after == 10.0


def test_two_releases_for_a_cluster_are_a_problem_of_that_cluster() -> None:
    twice = [release("a"), {**release("a"), "metadata": {**release("a")["metadata"], "name": "other", "uid": "x"}}]
    decision = decide(observed(chart_proxy(), [cluster("a"), cluster("b")], twice), NOW)
    assert writes(decision) == {"b": "create"}
    assert "delete all but one" in message(decision, "HelmReleaseProxySpecsUpToDate")


def test_unobserved_spec_keeps_the_old_aggregate() -> None:
    proxy = chart_proxy()
    proxy["status"] = {"conditions": [{"type": "HelmReleaseProxiesReady", "status": "True", "reason": "InfoReported"}]}
    decision = decide(observed(proxy, [cluster("a")], [release("a", "False", observed=0)]), NOW)
    assert told(decision)[1:] == [
        ("HelmReleaseProxiesReady", "True", "InfoReported"),
        ("HelmReleaseProxySpecsUpToDate", "False", "HelmReleaseProxySpecsUpdating"),
    ]
    assert "hcp-a" in message(decision, "HelmReleaseProxySpecsUpToDate")


def test_clusters_that_cannot_be_selected() -> None:
    decision = decide(Observed(chart_proxy(), failure="'Nope' is not a label selector operator"), NOW)
    assert told(decision)[-1] == ("HelmReleaseProxySpecsUpToDate", "False", "ClusterSelectionFailed")
    assert "matchingClusters" not in (decision.status or {})


def test_deletion_waits_for_all_releases() -> None:
    proxy = chart_proxy(deleted=True)
    assert writes(decide(observed(proxy, [], [release("a"), release("b")]), NOW)) == {"a": "delete", "b": "delete"}
    failing = release("a", "False", "uninstall failed", deletionTimestamp="2026-01-01T00:00:00Z")
    waiting = decide(observed(proxy, [], [failing]), NOW)
    assert not waiting.effects
    assert "uninstall failed" in message(waiting, "Ready")
    assert decide(observed(proxy, [], []), NOW).effects == (RemoveFinalizer(HELM_CHART_PROXY, proxy, HCP_FINALIZER),)


@pytest.mark.parametrize(
    "seen",
    [
        observed(chart_proxy(annotations={"cluster.x-k8s.io/paused": ""}), [cluster("a")], []),
        observed(chart_proxy(), [cluster("a")], [], controller="caaph-system/caaph"),
        Observed(None),
    ],
    ids=["paused", "original controller", "gone"],
)
def test_left_alone(seen: Observed) -> None:
    decision = decide(seen, NOW)
    assert not decision.effects
    assert decision.status is None


def test_message_about_many_releases_is_bounded() -> None:
    releases = [release(f"c{number:03}", "False", f"{number % 5} " + "x" * 5000) for number in range(500)]
    status, reason, text = aggregate([*releases, release("ok")])
    assert (status, reason) == ("False", "IssuesReported")
    assert len(text) < 2500
    assert "and 97 more" in text
    assert "And 200 more with other messages" in text


def test_aggregate_prefers_issues_to_unknown_ones() -> None:
    unknown = {**release("u"), "status": {}}
    assert aggregate([unknown, release("ok")])[:2] == ("Unknown", "UnknownReported")
    assert aggregate([unknown, release("bad", "False", "no")])[:2] == ("False", "IssuesReported")


def test_settled_proxy_is_recognised_from_its_event() -> None:
    proxy = chart_proxy()
    decision = decide(observed(proxy, [cluster("a")], [release("a")]), NOW)
    settled = {**proxy, "status": decision.status}
    assert is_reconciled(settled, change_event(settled, "update", source="/t"), NOW)
    assert not is_reconciled(proxy, change_event(proxy, "update", source="/t"), NOW)
    changed = {**settled, "metadata": {**settled["metadata"], "generation": 3}}
    assert not is_reconciled(changed, change_event(changed, "update", source="/t"), NOW)
    one = {"apiVersion": HELM_CHART_PROXY.api_version, "kind": "HelmReleaseProxy", **release("a")}
    assert is_reconciled(settled, change_event(one, "add", source="/t"), NOW)
    assert not is_reconciled(settled, change_event(one, "update", source="/t"), NOW)


def test_rollout_changes_as_many_clusters_as_may_be_unavailable() -> None:
    strategy = {"maxUnavailable": 1}
    proxy = chart_proxy(rolloutStrategy=strategy)
    clusters = [cluster("a", paused=True), cluster("b"), cluster("c"), cluster("d")]
    seen = observed(proxy, clusters, [], failures={"b": Failure("b: no zone")})
    decision = decide(seen, NOW)
    assert writes(decision) == {"c": "create"}, "the paused Cluster takes no part, and b cannot be rendered"
    assert (decision.status or {})["rollout"] == {
        "waiting": 2,
        "partitions": [{"name": "remaining", "count": 3, "maxUnavailable": 1, "upToDate": 1, "unavailable": 1}],
    }


def test_reinstallation_holds_its_slot_until_the_chart_is_back() -> None:
    proxy = chart_proxy(rolloutStrategy={"maxUnavailable": 1}, chartName="other")
    clusters, kept = [cluster("a"), cluster("b")], release("b")
    assert writes(decide(observed(proxy, clusters, [release("a"), kept]), NOW)) == {"a": "reinstall"}
    gone = release("a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert writes(decide(observed(proxy, clusters, [gone, kept]), NOW)) == {}
    assert writes(decide(observed(proxy, clusters, [kept]), NOW)) == {"a": "create"}


def test_chart_is_uninstalled_from_clusters_that_leave_a_paused_rollout() -> None:
    proxy = chart_proxy(rolloutStrategy={"paused": True})
    decision = decide(observed(proxy, [cluster("a")], [release("b")]), NOW)
    assert writes(decision) == {"b": "delete"}
    assert told(decision)[2] == ("HelmReleaseProxySpecsUpToDate", "False", "RolloutPaused")


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({"a": ["b"], "b": []}, ()),
        ({"a": ["a"]}, ("a", "a")),
        ({"a": ["b", "c"], "b": ["c"], "c": ["a"]}, ("a", "c", "a")),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ()),
    ],
    ids=["none", "itself", "shortest", "of others"],
)
def test_cycle_of_dependencies(edges: dict[str, list[str]], cycle: tuple[str, ...]) -> None:
    assert find_cycle("a", lambda name: edges[name]) == cycle
