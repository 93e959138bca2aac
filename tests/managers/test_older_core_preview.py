"""The preview of a topology change by a core of another version, which is built from its Go module once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.operations.preview import Change, preview
from infra.operations.preview.loading import new_definition
from shared import bounded_yaml
from shared.api.resources import CLUSTER, DEPLOYMENT, NAMESPACE
from shared.components.substitute import substitute
from shared.kube import Client, Key, Object, connect
from shared.kube.crds import CRD, await_all_established
from shared.kube.discovery import Discovery
from tests.support.objects import manifest
from tests.support.real_providers import DOWNLOADS, PREVIOUS, PROVIDERS, components, in_memory_cluster
from tests.support.topology_classes import classes

pytestmark = pytest.mark.timeout(3000)
VARIABLES = {"CLUSTER_TOPOLOGY": "true"}
CLUSTER_KEY = Key("preview", "demo")


@pytest.fixture
def management(tmp_path: Path) -> Iterator[Client]:
    """The client of a management cluster with the objects of the older providers, and without their managers."""
    folder = tmp_path / "management"
    local_control_plane.start(folder, progress=print)
    try:
        with closing(connect.from_kubeconfig(str(local_control_plane.kubeconfig(folder)))) as client:
            install(client)
            yield client
    finally:
        local_control_plane.stop(folder)


def install(client: Client) -> None:
    published = components(PREVIOUS) / DOWNLOADS / PREVIOUS
    found = chain.from_iterable(
        bounded_yaml.load_all(substitute((published / provider.file).read_text(), VARIABLES)) for provider in PROVIDERS
    )
    objects = [obj for obj in found if obj]
    crds = [new_definition(obj) for obj in objects if obj["kind"] == CRD.kind]
    assert not await_all_established(client, [client.apply(CRD, crd, manager="user") for crd in crds])
    client.apply(NAMESPACE, manifest(NAMESPACE, CLUSTER_KEY.namespace), manager="user")
    _, [cluster] = in_memory_cluster(CLUSTER_KEY, "v1.35.0")
    cluster["spec"]["topology"]["classRef"] = {"name": "v1"}
    apply(client, [obj for obj in objects if obj["kind"] in (NAMESPACE.kind, DEPLOYMENT.kind)])
    apply(client, [*classes(CLUSTER_KEY.namespace), cluster])
    apply(client, [obj for obj in objects if obj["kind"].endswith("WebhookConfiguration")])  # last: nobody serves them


def apply(client: Client, objects: list[Object]) -> None:
    discovery = Discovery(client)
    for obj in objects:
        resource = discovery.resource(obj["apiVersion"], obj["kind"])
        assert resource is not None, obj["kind"]
        client.apply(resource, obj, manager="user")


def test_core_of_the_management_clusters_version_makes_the_preview(management: Client) -> None:
    [plan] = preview(management, {CLUSTER_KEY: Change(class_name="v2")}, print)
    assert plan.core == PREVIOUS
    assert {(change.action, change.kind) for change in plan.pending} >= {("create", "KubeadmControlPlane")}
    [changed] = [change for change in plan.changes if change.kind == "KubeadmControlPlane"]
    assert any("certSANs" in field.path for field in changed.fields)
    assert plan.refusal is None
    assert management.get(CLUSTER, CLUSTER_KEY)["metadata"]["generation"] == 1
