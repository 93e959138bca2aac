"""`capi-functions rollout` for ClusterRollouts on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.kube import Client, dig
from tests.support.cluster_rollouts import CANARY, NEW, NEWEST, OLD, Rollouts


@pytest.fixture
def rollouts(management: Client, clients: Clients, namespace: str) -> Iterator[Rollouts]:
    made = Rollouts(management, clients, namespace)
    yield made
    made.remove_all()


def run(rollouts: Rollouts, kubeconfig: Path, command: str, *options: str, name: str = "clusterrollout/next") -> Result:
    target = ["-n", rollouts.namespace, "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(app, ["rollout", command, name, *options, *target])


def test_plan_is_what_happens(rollouts: Rollouts, kubeconfig: Path) -> None:
    rollouts.fleet(canary=2, main=9)
    rollouts.rollout(rolloutStrategy={"maxUnavailable": "50%", "partitions": [CANARY]})
    planned = json.loads(run(rollouts, kubeconfig, "plan", "-o", "json").stdout)["steps"]
    assert [len(step) for step in planned] == [1, 1, 5, 4]
    lines = [line.split() for line in run(rollouts, kubeconfig, "plan").stdout.splitlines()]
    assert lines[2] == ["1", "canary", "canary-0", "patch", OLD, "v1.36.1"]
    had: set[str] = set()
    for step in planned:
        rollouts.reconcile()
        has = set(rollouts.with_class(NEW))
        assert sorted(has - had) == step
        had = has
        rollouts.report()
    assert "nothing to change" in run(rollouts, kubeconfig, "plan").stdout


def test_status_shows_classes_and_reasons(rollouts: Rollouts, kubeconfig: Path) -> None:
    rollouts.fleet(canary=2, main=1)
    rollouts.cluster("newer", NEWEST)
    rollouts.rollout(rolloutStrategy={"maxUnavailable": 1, "partitions": [CANARY]})
    rollouts.reconcile()
    rollouts.report("canary-0")
    found = run(rollouts, kubeconfig, "status")
    assert found.exit_code == 0, found.output
    by_name = {words[0]: words[1:] for line in found.stdout.splitlines() if (words := line.split(maxsplit=6))}
    assert found.stdout.startswith(f"next: {NEW} is ready in 0 of 3 Clusters")
    assert f"newer stays unchanged, because its class {NEWEST} is newer" in found.stdout
    moved = ["canary", NEW, "v1.36.1", "True", "False", "TopologyReconciled: ReconcileFailed"]
    assert by_name["canary-0"] == moved
    full = "1 of 2 Clusters of partition canary are unavailable, and at most 1 may be"
    assert by_name["canary-1"] == ["canary", OLD, "v1.36.1", "False", "True", full]
    assert by_name["main-0"][-1] == "partition canary is not up to date and ready yet"


def test_pause_and_resume(rollouts: Rollouts, kubeconfig: Path) -> None:
    rollouts.fleet(main=2)
    rollouts.rollout(rolloutStrategy={"maxUnavailable": 1})
    assert run(rollouts, kubeconfig, "pause").exit_code == 0
    rollouts.reconcile()
    assert rollouts.with_class(NEW) == []
    assert "paused: rolloutStrategy.paused is true" in run(rollouts, kubeconfig, "status").stdout
    assert run(rollouts, kubeconfig, "resume").exit_code == 0
    rollouts.reconcile()
    assert dig(rollouts.client.get(CLUSTER_ROLLOUT, rollouts.key("next")), "spec.rolloutStrategy") == {
        "maxUnavailable": 1
    }
    assert rollouts.with_class(NEW) == ["main-0"]


def test_get_lists_rollouts(rollouts: Rollouts, kubeconfig: Path) -> None:
    rollouts.fleet(main=2)
    rollouts.rollout(rolloutStrategy={"paused": True}, version="v1.36.2")
    rollouts.reconcile()
    listed = CliRunner().invoke(app, ["get", "rollouts", "-n", rollouts.namespace, "--kubeconfig", str(kubeconfig)])
    row = next(line.split(maxsplit=6) for line in listed.stdout.splitlines() if line.startswith("next"))
    assert row[1:5] == [NEW, "v1.36.2", "2", "False"]
    assert row[6] == "RolloutPaused: 2 Clusters wait: the rollout is paused"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clusterrollouts/none", "ClusterRollout none does not exist in the namespace"),
        ("deployment/web", "deployment has no rollout: helmchartproxy/NAME and clusterrollout/NAME have one"),
    ],
)
def test_missing_object_is_named(rollouts: Rollouts, kubeconfig: Path, name: str, message: str) -> None:
    for command in ("status", "plan", "pause", "resume"):
        found = run(rollouts, kubeconfig, command, name=name)
        assert found.exit_code == 1
        assert message in found.stderr
