"""`capi-functions rollout` on a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import HELM_CHART_PROXY
from shared.kube import Key, dig
from tests.support.chart_proxies import Charts

CANARY = {"name": "canary", "clusterSelector": {"matchLabels": {"wave": "canary"}}}


def rollout(charts: Charts, kubeconfig: Path, command: str, *options: str, name: str = "metrics") -> Result:
    target = ["-n", charts.namespace, "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(app, ["rollout", command, name, *options, *target])


def fleet(charts: Charts, **strategy: Any) -> None:
    """Creates 2 Clusters in the partition canary and 9 others, with version 1.0.0; then wants 2.0.0."""
    for wave, count in (("canary", 2), ("main", 9)):
        for index in range(count):
            charts.cluster(f"{wave}-{index}", metrics="yes", wave=wave)
    charts.proxy(version="1.0.0")
    charts.reconcile()
    charts.report()
    spec = {"version": "2.0.0", "rolloutStrategy": {"maxUnavailable": 1, "partitions": [CANARY], **strategy}}
    charts.patch(HELM_CHART_PROXY, "metrics", {"spec": spec})


def test_plan_is_what_happens(charts: Charts, kubeconfig: Path) -> None:
    fleet(charts, maxUnavailable="50%")
    planned = json.loads(rollout(charts, kubeconfig, "plan", "-o", "json").stdout)["steps"]
    assert [len(step) for step in planned] == [1, 1, 5, 4]
    assert "1      canary      canary-0   patch    1.0.0" in rollout(charts, kubeconfig, "plan").stdout
    had: set[str] = set()
    for step in planned:
        charts.reconcile()
        has = {name for name, one in charts.releases().items() if one["spec"]["version"] == "2.0.0"}
        assert sorted(has - had) == step
        had = has
        charts.report()
    assert "nothing to change" in rollout(charts, kubeconfig, "plan").stdout


def test_status_shows_versions_and_reasons(charts: Charts, kubeconfig: Path) -> None:
    fleet(charts)
    charts.reconcile()
    found = rollout(charts, kubeconfig, "status")
    assert found.exit_code == 0, found.output
    lines = [line.split(maxsplit=5) for line in found.stdout.splitlines()]
    by_name = {line[0]: line[1:] for line in lines}
    assert found.stdout.startswith("metrics: 2.0.0 is ready in 0 of 11 Clusters")
    assert by_name["canary-0"] == ["canary", "2.0.0", "True", "False", "its last change is not reconciled yet"]
    full = "1 of 2 Clusters of partition canary are unavailable, and at most 1 may be"
    assert by_name["canary-1"] == ["canary", "1.0.0", "False", "True", full]
    assert by_name["main-0"][4] == "partition canary is not up to date and ready yet"


def test_pause_and_resume(charts: Charts, kubeconfig: Path) -> None:
    fleet(charts)
    assert rollout(charts, kubeconfig, "pause").stdout == "the rollout of metrics is paused\n"
    charts.reconcile()
    assert {one["spec"]["version"] for one in charts.releases().values()} == {"1.0.0"}
    assert "paused: rolloutStrategy.paused is true" in rollout(charts, kubeconfig, "status").stdout
    assert rollout(charts, kubeconfig, "resume").exit_code == 0
    stored = charts.reconcile()
    assert dig(stored, "spec.rolloutStrategy.maxUnavailable") == 1
    assert charts.releases()["canary-0"]["spec"]["version"] == "2.0.0"


def test_commands_change_nothing_but_the_pause(charts: Charts, kubeconfig: Path) -> None:
    fleet(charts)
    before = charts.client.get(HELM_CHART_PROXY, Key(charts.namespace, "metrics")), charts.releases()
    for command in ("status", "plan"):
        assert rollout(charts, kubeconfig, command).exit_code == 0
    assert before == (charts.client.get(HELM_CHART_PROXY, Key(charts.namespace, "metrics")), charts.releases())


def test_missing_chart_is_named(charts: Charts, kubeconfig: Path) -> None:
    for command in ("status", "plan", "pause", "resume"):
        found = rollout(charts, kubeconfig, command, name="nothing")
        assert found.exit_code == 1
        assert f"HelmChartProxy nothing does not exist in the namespace {charts.namespace}" in found.stderr
