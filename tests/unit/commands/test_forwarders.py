"""Which Deployments run a forwarder, and whether all changes are delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.operations.forwarders import forwarders, obstacle
from shared import bounded_yaml
from shared.kube import Object

MANIFESTS = Path(__file__).parents[3] / "infra/manifests"


def deployment(name: str, *arguments: str, available: int = 1) -> Object:
    container = {"name": "forwarder", "command": ["python", "-m", "infra.forwarder"], "args": [*arguments]}
    spec = {"template": {"spec": {"containers": [{"name": "other"}, container]}}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": spec, "status": {"availableReplicas": available}}


def part(shard: str, *, available: int = 1) -> Object:
    return deployment(f"part-{shard[0]}", f"--shard={shard}", available=available)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([deployment("forwarder")], ""),
        ([deployment("forwarder", available=0)], "no pod of the Deployment forwarder is available: only the sweep"),
        ([deployment("forwarder", available=0), deployment("capi-functions")], ""),
        ([part("0/2"), part("1/2")], ""),
        ([part("0/2"), part("1/2", available=0)], "no pod with --shard=1/2 is available"),
        ([part("0/3"), part("1/3")], "no pod with --shard=2/3 is available"),
        ([deployment("mine", "--shard", "1/2", available=0), part("0/2")], "no pod with --shard=1/2 is available"),
        ([deployment("old"), part("0/2"), part("1/2", available=0)], ""),
        ([deployment("old", available=0), part("0/2"), part("1/2")], ""),
        ([deployment("odd", "--shard=2/2", available=0)], "no pod of the Deployment odd is available"),
    ],
)
def test_obstacle_names_what_is_not_delivered_for(found: list[Object], words: str) -> None:
    assert forwarders(found) == found
    assert obstacle(found).startswith(words)
    assert bool(obstacle(found)) == bool(words)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("single/single.yaml", ["capi-functions", "capi-functions-providers"]),
        ("forwarder/forwarder.yaml", ["forwarder"]),
        ("base/function-sweep.yaml", []),
    ],
)
def test_generated_forwarders_are_found_by_their_command(file: str, names: list[str]) -> None:
    documents = [document for document in bounded_yaml.load_all((MANIFESTS / file).read_text()) if document]
    deployments = [document for document in documents if document["kind"] == "Deployment"]
    assert [found["metadata"]["name"] for found in forwarders(deployments)] == names
