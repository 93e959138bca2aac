"""Clusters with a class of another namespace: releases of that namespace's own sources need its permission."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.api.resources import CLUSTER, CLUSTER_STACK, NAMESPACE
from shared.kube import Key, Object
from tests.support import objects
from tests.support.http_server import HttpServer, files
from tests.support.releases import write_release
from tests.support.world import World


@pytest.fixture
def owner(world: World) -> str:
    """Creates the other namespace."""
    name = f"owner-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    world.client.create(NAMESPACE, body)
    return name


@pytest.fixture
def private(world: World, tmp_path: Path) -> Iterator[tuple[str, HttpServer]]:
    """Returns the class of a release that only a web server has, and the server."""
    folder = tmp_path / "web"
    name = write_release(folder, "v1", [world.map("private")])
    paths = (path for path in folder.rglob("*") if path.is_file())
    with HttpServer(files({f"/{path.relative_to(folder)}": path.read_bytes() for path in paths})) as site:
        yield name, site


def stack(world: World, owner: str, **spec: Any) -> None:
    spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True} | spec
    world.client.apply(CLUSTER_STACK, objects.manifest(CLUSTER_STACK, "stack", owner, spec=spec), manager="user")


def cluster(world: World, class_name: str, owner: str) -> Object:
    reference = {"classRef": {"name": class_name, "namespace": owner}}
    body = objects.manifest(CLUSTER, "demo", world.namespace, spec={"topology": reference})
    return world.client.apply(CLUSTER, body, manager="user")


def test_release_of_own_sources_is_shared_with_allowed_namespaces_only(
    world: World, owner: str, private: tuple[str, HttpServer]
) -> None:
    name, site = private
    sources = [{"url": site.url}]
    stack(world, owner, sources=sources, allowedNamespaces=["another"])
    world.secret()
    cluster(world, name, owner)
    assert world.settle().retry_after == 60.0
    condition = world.condition("ClusterStackReleaseDownloaded")
    assert (condition["reason"], condition["severity"]) == ("ReleaseNotShared", "Error")
    assert f"private to namespace {owner}: list {world.namespace} in spec.allowedNamespaces" in condition["message"]
    assert world.names() == []
    stack(world, owner, sources=sources, allowedNamespaces=[world.namespace])
    cluster(world, name, owner)
    assert world.settle().retry_after is None
    assert world.names() == ["private"]
    world.client.delete(CLUSTER_STACK, Key(owner, "stack"))


def test_release_of_the_common_source_is_shared_with_all_namespaces(world: World, owner: str) -> None:
    name = write_release(world.releases, "v1", [world.map("public")])
    stack(world, owner)
    world.secret()
    cluster(world, name, owner)
    assert world.settle().retry_after is None
    assert world.names() == ["public"]
    world.client.delete(CLUSTER_STACK, Key(owner, "stack"))
