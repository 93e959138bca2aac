"""`capi-functions events` on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import CLUSTER, EVENT
from shared.kube import Key
from tests.support.world import World


def events(world: World, kubeconfig: Path, *arguments: str) -> Result:
    options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, ["events", *arguments, *options])
    assert result.exit_code == 0, result.output
    return result


def record(
    world: World, name: str, about: str, *, kind: str = "Cluster", type: str = "Normal", second: int = 0
) -> None:
    api_version = CLUSTER.api_version if kind == "Cluster" else "v1"
    involved = {"apiVersion": api_version, "kind": kind, "namespace": world.namespace, "name": about}
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": world.namespace},
        "involvedObject": involved,
        "type": type,
        "reason": name.title(),
        "message": f"line one\n\x1b[31mof {name}",
        "lastTimestamp": f"2026-01-01T00:00:{second:02d}Z",
    }
    world.client.create(EVENT, body)
    assert world.client.get(EVENT, Key(world.namespace, name))


def test_events_of_cluster_api_are_listed_the_newest_last(world: World, kubeconfig: Path) -> None:
    assert f"no events in the namespace {world.namespace}" in events(world, kubeconfig).stderr
    record(world, "newer", "demo", type="Warning", second=9)
    record(world, "older", "demo", second=1)
    record(world, "other", "second", second=5)
    record(world, "pod", "demo", kind="Pod")
    lines = events(world, kubeconfig).stdout.splitlines()
    assert [line.split()[3] for line in lines] == ["REASON", "Older", "Other", "Newer"]
    assert lines[-1].endswith("line one \\x1b[31mof newer")
    assert len(events(world, kubeconfig, "demo").stdout.splitlines()) == 3
    found = json.loads(events(world, kubeconfig, "--warnings", "-o", "json").stdout)
    assert [event["metadata"]["name"] for event in found] == ["newer"]
