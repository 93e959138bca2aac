"""docs/rollouts.md: its objects are accepted, and its commands work on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli.main import app
from shared.api.resources import CLUSTER_ROLLOUT, HELM_CHART_PROXY
from shared.clients import Clients
from shared.kube import Client, dig
from tests.support import objects
from tests.support.cluster_rollouts import NEW, Rollouts
from tests.support.pages import ROOT, blocks, commands

BLOCKS = list(blocks(ROOT / "docs" / "rollouts.md"))
EXAMPLES = [yaml.safe_load(block.text) for block in BLOCKS if block.is_yaml]
KINDS = {resource.kind: resource for resource in (HELM_CHART_PROXY, CLUSTER_ROLLOUT)}


@pytest.fixture
def rollouts(management: Client, clients: Clients, namespace: str) -> Iterator[Rollouts]:
    made = Rollouts(management, clients, namespace)
    yield made
    objects.remove(management, HELM_CHART_PROXY, made.key("ingress"))
    made.remove_all()


def test_objects_and_commands_of_the_page(rollouts: Rollouts, kubeconfig: Path) -> None:
    rollouts.fleet()
    for name, stage in (("one", "canary"), ("two", "staging"), ("three", "late")):
        rollouts.cluster(name, env="production", ingress="yes", stage=stage)
    rollouts.report()
    for example in EXAMPLES:
        if kind := example.get("kind"):
            example["metadata"]["namespace"] = rollouts.namespace
            rollouts.client.create(KINDS[kind], example)
    strategies = [example["rolloutStrategy"] for example in EXAMPLES if "rolloutStrategy" in example]
    assert strategies
    for strategy in strategies:
        rollouts.patch({"rolloutStrategy": strategy})
    ran = set()
    target = ["-n", rollouts.namespace, "--kubeconfig", str(kubeconfig)]
    for words in (words for block in BLOCKS if block.is_shell for words in commands(block.text)):
        done = CliRunner().invoke(app, [*words[1:], *target])
        assert done.exit_code == 0, (words, done.output)
        ran.add(" ".join(words[1:3]))
    assert ran == {*(f"rollout {name}" for name in ("status", "plan", "pause", "resume")), "get rollouts"}
    rollouts.patch({"rolloutStrategy": {"windows": None}})
    rollouts.reconcile()
    moved = rollouts.client.get(CLUSTER_ROLLOUT, rollouts.key("next"))
    assert dig(moved, "spec.topology.classRef.name") == NEW
    assert rollouts.with_class(NEW) == ["one"]
