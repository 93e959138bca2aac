"""The commands of the page about migrating from cluster-api-provider-kind, as written and in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions import catalog
from functions.kind_cluster.triggers import FINALIZER
from infra import local_control_plane
from shared.api.resources import KIND_CLUSTER
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, dig
from tests.support import objects
from tests.support.documents import ROOT, Shell, blocks
from tests.support.until import HANGS, until

PAGE = ROOT / "docs" / "migrating-from-cluster-api-provider-kind.md"


@pytest.fixture
def one(management: Client, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Key]:
    """A KINDCluster as the provider leaves it."""
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path))
    key = Key(namespace, "one")
    spec = {"clusterName": "test-2", "kubernetesVersion": "1.20"}
    metadata = {"finalizers": [FINALIZER]}
    management.create(KIND_CLUSTER, objects.manifest(KIND_CLUSTER, "one", namespace, metadata=metadata, spec=spec))
    history = [{"timestamp": "2026-01-01T00:00:00Z", "message": "Cluster was successfully created", "reason": ""}]
    status = {"ready": True, "failureMessage": "", "conditions": history}
    management.patch(KIND_CLUSTER, key, {"status": status}, subresource="status")
    yield key
    for folder in (tmp_path / "clusters").glob("*/"):
        local_control_plane.remove(folder)


def test_commands_of_the_page_create_the_clusters_again(
    management: Client, clients: Clients, one: Key, shell: Shell, kubeconfig: Path, tmp_path: Path
) -> None:
    delete, create, start, look = blocks(PAGE, "Take over")
    assert start.startswith("capi-functions run --kind ")  # e2e/test_command_run runs it
    own = tmp_path / "kubeconfig"
    own.write_bytes(kubeconfig.read_bytes())
    shell.run(f"export KUBECONFIG={own}\nkubectl config set-context --current --namespace={one.namespace}")
    deleting = shell.start(delete)
    until(lambda: dig(management.get(KIND_CLUSTER, one), "metadata.deletionTimestamp"), "the deletion")
    management.patch(KIND_CLUSTER, one, {"metadata": {"finalizers": None}})  # as the provider does
    assert deleting.wait(HANGS) == 0

    shell.run(create)
    created = management.get(KIND_CLUSTER, one)
    assert (created["spec"]["clusterName"], created["spec"]["kubernetesVersion"]) == ("test-2", "1.20")
    assert "status" not in created

    def ready() -> bool:
        kind = management.get(KIND_CLUSTER, one)
        catalog.handler("kind_cluster")(clients, change_event(kind, "update", source="/test"))
        return dig(management.get(KIND_CLUSTER, one), "status.ready") is True

    until(ready, "the KINDCluster is ready")
    assert "secret/test-2-config" in shell.run(look)
    objects.remove(management, KIND_CLUSTER, one)
