"""Rollouts of a HelmChartProxy over many Clusters on a real API server: waves, failures, pauses, dependencies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.api.conditions import get_condition
from shared.api.resources import HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.kube import ApiError, Object
from shared.kube.resources import dig
from tests.support.chart_proxies import Charts

STRATEGY = {
    "maxUnavailable": "40%",
    "partitions": [
        {"name": "canary", "clusterSelector": {"matchLabels": {"wave": "canary"}}, "maxUnavailable": 1},
        {"name": "main", "clusterSelector": {"matchLabels": {"wave": "main"}}},
    ],
}


def fleet(charts: Charts) -> None:
    """Creates 12 Clusters: 2 in the partition canary, 5 in the partition main, 5 in none."""
    for wave, count in (("canary", 2), ("main", 5), ("late", 5)):
        for index in range(count):
            charts.cluster(f"{wave}-{index}", metrics="yes", wave=wave)


def report(charts: Charts, *failing: str) -> None:
    """Reports Ready for the releases that have not been seen since their last change; `failing` ones fail."""
    for cluster, release in charts.releases().items():
        generation = release["metadata"]["generation"]
        if dig(release, "status.observedGeneration") == generation:
            continue
        status = "False" if cluster in failing else "True"
        reason = "HelmInstallOrUpgradeFailed" if cluster in failing else "R"
        condition = {"type": "Ready", "status": status, "reason": reason, "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        body = {"status": {"observedGeneration": generation, "conditions": [condition]}}
        charts.patch(HELM_RELEASE_PROXY, release["metadata"]["name"], body, "status")


def with_version(charts: Charts, version: str) -> list[str]:
    return sorted(name for name, one in charts.releases().items() if one["spec"].get("version") == version)


def up_to_date(proxy: Object | None) -> Object:
    return get_condition(dig(proxy, "status.conditions"), "HelmReleaseProxySpecsUpToDate") or {}


def steps(charts: Charts, version: str, *, most: int = 20) -> list[list[str]]:
    """Reconciles until nothing waits; returns which Clusters got the version in each step."""
    found: list[list[str]] = []
    had: set[str] = set()
    for _ in range(most):
        stored = charts.reconcile()
        has = set(with_version(charts, version))
        found.append(sorted(has - had))
        had = has
        report(charts)
        if not dig(stored, "status.rollout.waiting"):
            return found
    raise AssertionError(f"the rollout did not end: {found}")


def test_versions_move_from_wave_to_wave(charts: Charts) -> None:
    fleet(charts)
    charts.proxy(version="1.0.0", rolloutStrategy=STRATEGY)
    waves = [
        ["canary-0"],
        ["canary-1"],
        ["main-0", "main-1"],
        ["main-2", "main-3"],
        ["main-4"],
        ["late-0", "late-1"],
        ["late-2", "late-3"],
        ["late-4"],
    ]
    assert steps(charts, "1.0.0") == waves
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "2.0.0"}})
    assert steps(charts, "2.0.0") == waves
    stored = charts.reconcile()
    assert up_to_date(stored)["reason"] == "UpToDate"
    assert dig(stored, "status.rollout") == {
        "waiting": 0,
        "partitions": [
            {"name": "canary", "count": 2, "maxUnavailable": 1, "upToDate": 2, "unavailable": 0},
            {"name": "main", "count": 5, "maxUnavailable": 2, "upToDate": 5, "unavailable": 0},
            {"name": "remaining", "count": 5, "maxUnavailable": 2, "upToDate": 5, "unavailable": 0},
        ],
    }

    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"rolloutStrategy": None, "version": "3.0.0"}})
    stored = charts.reconcile()
    assert len(with_version(charts, "3.0.0")) == 12
    assert "rollout" not in dig(stored, "status")
    assert get_condition(dig(stored, "status.conditions"), "RolloutStrategyAccepted") is None


def test_failure_stops_the_rollout_until_a_version_repairs_it(charts: Charts) -> None:
    fleet(charts)
    charts.proxy(version="1.0.0")
    charts.reconcile()
    report(charts)
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "2.0.0", "rolloutStrategy": STRATEGY}})
    charts.reconcile()
    report(charts, "canary-0")
    for _ in range(2):
        stored = charts.reconcile()
        assert with_version(charts, "2.0.0") == ["canary-0"]
    assert up_to_date(stored)["reason"] == "RolloutWaiting"
    assert up_to_date(stored)["message"] == (
        "10 Clusters wait: partition canary is not up to date and ready yet; "
        "1 Cluster waits: 1 of 2 Clusters of partition canary are unavailable, and at most 1 may be"
    )
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"version": "2.0.1"}})
    assert steps(charts, "2.0.1")[:2] == [["canary-0"], ["canary-1"]]
    assert with_version(charts, "1.0.0") == []


def test_paused_rollout_changes_nothing_until_it_is_resumed(charts: Charts) -> None:
    fleet(charts)
    charts.proxy(version="1.0.0", rolloutStrategy={"paused": True})
    assert up_to_date(charts.reconcile())["reason"] == "RolloutPaused"
    assert charts.releases() == {}
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"rolloutStrategy": {"paused": False}}})
    charts.reconcile()
    assert len(charts.releases()) == 12


def test_partitions_that_do_not_fit_are_a_condition(charts: Charts) -> None:
    charts.cluster("one", metrics="yes", wave="canary")
    charts.proxy(rolloutStrategy=STRATEGY)
    condition = get_condition(dig(charts.reconcile(), "status.conditions"), "RolloutStrategyAccepted") or {}
    assert (condition["status"], condition["reason"]) == ("False", "PartitionsDoNotFit")
    assert condition["message"] == "partition main selects no Cluster"


NEVER = {"schedule": "0 0 30 2 *", "duration": "1h"}
ALWAYS = {"schedule": "* * * * *", "duration": "1h"}


def test_chart_is_changed_in_a_window_only(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy(rolloutStrategy={"windows": [NEVER]})
    assert up_to_date(charts.reconcile())["message"] == "1 Cluster waits: no window will open again"
    month = datetime.now(UTC).month % 12 + 1
    later = {"schedule": f"0 0 15 {month} *", "duration": "1h"}
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"rolloutStrategy": {"windows": [later]}}})
    charts.reconcile()
    assert charts.releases() == {}
    assert 24 * 3600 < (charts.answers[-1].retry_after or 0) < 62 * 24 * 3600
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": {"rolloutStrategy": {"windows": [NEVER, ALWAYS]}}})
    charts.reconcile()
    assert set(charts.releases()) == {"one"}


def test_wrong_time_zone_is_a_condition(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy(rolloutStrategy={"windows": [{**ALWAYS, "timeZone": "Mars/Olympus"}]})
    condition = get_condition(dig(charts.reconcile(), "status.conditions"), "RolloutStrategyAccepted") or {}
    assert (condition["status"], condition["reason"]) == ("False", "InvalidWindow")
    assert charts.releases() == {}


@pytest.mark.parametrize("duration", ["0s", "169h", "a day"])
def test_durations_that_mean_nothing_are_refused(charts: Charts, duration: str) -> None:
    with pytest.raises(ApiError):
        charts.proxy(rolloutStrategy={"windows": [{**ALWAYS, "duration": duration}]})


def test_failures_in_a_row_stop_the_rollout(charts: Charts) -> None:
    fleet(charts)
    charts.proxy(version="1.0.0", rolloutStrategy={"maxUnavailable": "50%", "maxConsecutiveFailures": 2})
    charts.reconcile()
    assert len(with_version(charts, "1.0.0")) == 6
    report(charts, "canary-0", "canary-1")
    stored = charts.reconcile()
    assert len(with_version(charts, "1.0.0")) == 6
    assert up_to_date(stored)["message"] == "6 Clusters wait: 2 Clusters failed in a row, the last one is canary-1"


@pytest.mark.parametrize("amount", [0, -1, "0%", "101%", "2"])
def test_amounts_that_mean_nothing_are_refused(charts: Charts, amount: Any) -> None:
    with pytest.raises(ApiError):
        charts.proxy(rolloutStrategy={"maxUnavailable": amount})


def test_chart_waits_in_each_cluster_for_the_charts_that_it_depends_on(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.cluster("two", metrics="yes")
    charts.proxy("certificates")
    charts.proxy("metrics", dependsOn=["certificates"])

    def made(name: str) -> list[str]:
        return sorted(c for c in ("one", "two") if f"{name}-{c}" in " ".join(names()))

    def names() -> list[str]:
        return [one["metadata"]["name"] for one in charts.client.list(HELM_RELEASE_PROXY, charts.namespace)]

    stored = charts.reconcile()
    assert made("metrics") == []
    assert (
        up_to_date(stored)["message"] == "2 Clusters wait: HelmChartProxy certificates is not ready in the Cluster yet"
    )
    assert charts.answers[-1].retry_after
    charts.reconcile("certificates")
    for release in charts.client.list(HELM_RELEASE_PROXY, charts.namespace):
        if release["spec"]["clusterRef"]["name"] == "one":
            condition = {"type": "Ready", "status": "True", "reason": "R", "message": ""}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            body = {"status": {"observedGeneration": 1, "conditions": [condition]}}
            charts.patch(HELM_RELEASE_PROXY, release["metadata"]["name"], body, "status")
    charts.reconcile()
    assert made("metrics") == ["one"]


def test_cycle_of_dependencies_is_reported(charts: Charts) -> None:
    charts.cluster("one", metrics="yes")
    charts.proxy("certificates", dependsOn=["metrics"])
    charts.proxy("metrics", dependsOn=["certificates"])
    stored = charts.reconcile()
    assert up_to_date(stored)["reason"] == "DependencyCycle"
    assert "metrics → certificates → metrics" in up_to_date(stored)["message"]
    assert charts.releases() == {}
