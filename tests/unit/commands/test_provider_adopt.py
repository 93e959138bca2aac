"""`provider adopt`: recognizes the providers that another program has installed."""

from __future__ import annotations

from typing import Any

import pytest

from infra.operations.failure import Failure
from infra.operations.providers.adopt import paused, recognize, select
from infra.operations.providers.requests import ProviderRequest, ProviderSettings
from shared.api.provider import (
    BOOTSTRAP,
    CORE,
    INFRASTRUCTURE,
    KINDS,
    PROVIDER_LABEL,
    RUNTIME_EXTENSION,
    provider_of_label,
)
from shared.kube import Key, Object


def record(name: str, type_: str, version: Any = "v1.2.3", namespace: str = "x", **more: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "providerName": name, "type": type_, "version": version, **more}


def deployment(label: str, *images: str, namespace: str = "x") -> Object:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    metadata = {"name": "d", "namespace": namespace, "labels": {PROVIDER_LABEL: label}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}}


DOCKER = ProviderRequest(INFRASTRUCTURE, "docker", "x", "v1.2.3")

FOUND: list[tuple[list[Object], list[Object], list[ProviderRequest], list[str]]] = [
    ([], [], [], []),
    ([record("docker", "InfrastructureProvider")], [], [DOCKER], []),
    (
        [record("docker", "InfrastructureProvider"), record("cluster-api", "CoreProvider", watchedNamespace="team")],
        [],
        [ProviderRequest(CORE, "cluster-api", "x", "v1.2.3", watched="team"), DOCKER],
        [],
    ),
    # A record outranks what runs.
    ([record("docker", "InfrastructureProvider")], [deployment("infrastructure-docker", "a/b:v1.0.0")], [DOCKER], []),
    ([], [deployment("infrastructure-docker", "a.io:5000/b:v1.2.3")], [DOCKER], []),
    ([], [deployment("infrastructure-docker", f"a/b:v1.2.3@sha256:{'0' * 64}")], [DOCKER], []),
    ([], [deployment("infrastructure-docker", "a/b:v1.2.3", "a/sidecar:latest")], [DOCKER], []),
    ([], [deployment("infrastructure-docker", "a/b:v1.2.3", "a/c:v0.9.0")], [], ["its images have v0.9.0 and v1.2.3"]),
    ([], [deployment("infrastructure-docker", "a.io:5000/b")], [], ["its images have no version"]),
    ([], [deployment("mine", "a/b:v1.2.3")], [], ["'mine', which names no provider"]),
    ([record("docker", "Provider")], [], [], ["record x/docker has no known type"]),
    ([record("", "CoreProvider")], [], [], ["has no known type, name and version"]),
    ([record("docker", "InfrastructureProvider", "newest")], [], [], ["record x/docker"]),
    ([record("docker", "InfrastructureProvider", None)], [], [], ["record x/docker"]),
]


@pytest.mark.parametrize(("records", "deployments", "wanted", "unclear"), FOUND)
def test_providers_are_recognized_by_records_and_deployments(
    records: list[Object], deployments: list[Object], wanted: list[ProviderRequest], unclear: list[str]
) -> None:
    result = recognize(records, deployments)
    assert list(result.providers) == wanted
    assert len(result.unclear) == len(unclear)
    for message, part in zip(result.unclear, unclear, strict=True):
        assert part in message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type_name)
def test_label_gives_kind_and_name(kind: Any) -> None:
    name = "cluster-api" if kind.is_core else "some-name"
    assert provider_of_label(kind.label(name)) == (kind, name)


@pytest.mark.parametrize("label", ["", "docker", "infrastructure-", "infrastructure", "runtimeextension-x"])
def test_other_labels_give_no_provider(label: str) -> None:
    assert provider_of_label(label) is None


def test_one_provider_is_selected() -> None:
    runtime = ProviderRequest(RUNTIME_EXTENSION, "docker", "y", "v1.0.0")
    assert select([DOCKER, runtime], RUNTIME_EXTENSION, "docker") == [runtime]
    with pytest.raises(Failure, match="BootstrapProvider docker; found: infrastructure docker, runtime-extension"):
        select([DOCKER, runtime], BOOTSTRAP, "docker")


def test_adopted_providers_have_version_namespace_and_pause() -> None:
    [one] = paused([ProviderRequest(CORE, "cluster-api", "x", "v1.2.3", watched="team")])
    made = one.dump(ProviderSettings(Key("", "variables")))
    assert made["metadata"]["annotations"] == {"cluster.x-k8s.io/paused": "true"}
    secret = {"name": "variables", "namespace": "x"}
    assert made["spec"] == {"version": "v1.2.3", "configSecret": secret, "manager": {"cacheNamespace": "team"}}
