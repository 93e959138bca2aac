"""clusterctl's commands work with providers that the functions have installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.provider import CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import NAMESPACE
from shared.kube import Client, Key, NotServed, Object, Resource, deleting, dig, owner_reference
from tests.support.provider_world import Providers, plane_of_providers, world_of
from tests.support.real_providers import CURRENT, PREVIOUS, components, reduced, repository, run_clusterctl
from tests.support.until import until

PROVIDERS = (
    (CORE, "cluster-api", "capi-system", "core-components.yaml"),
    (INFRASTRUCTURE, "docker", "capd-system", "infrastructure-components-development.yaml"),
)
CLUSTER = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters")
DOCKER_CLUSTER = Resource("infrastructure.cluster.x-k8s.io", "v1beta2", "DockerCluster", "dockerclusters")
ONE = Key("fleet", "one")


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    return repository(tmp_path / "local", PREVIOUS, CURRENT, release=reduced)


@pytest.fixture
def here(provider_plane: Path) -> Path:
    return local_control_plane.kubeconfig(provider_plane)


def bring(
    world: Providers,
    version: str,
    *wanted: tuple[ProviderKind, str, str, str],
    release: Callable[[str], Path] = reduced,
) -> None:
    """Installs the providers without webhooks, which no pod would answer, so that their kinds can be used."""
    world.releases.append(release(version))
    for kind, name, namespace, file in wanted or PROVIDERS:
        _until_usable(world.client, Key("", namespace))
        world.apply(kind, name, namespace, version=version, fetchConfig={"url": world.url(file)})
        world.until_ready(kind, name, namespace)
        world.without_webhooks(kind.label(name))


def _until_usable(client: Client, namespace: Key) -> None:
    """Waits for the end of a namespace that an earlier test has deleted."""
    until(lambda: not deleting(client.find(NAMESPACE, namespace) or {}), f"namespace {namespace.name} is usable")


@pytest.fixture
def release() -> Callable[[str], Path]:
    """Where the providers' releases come from."""
    return reduced


@pytest.fixture
def cluster(providers: Providers, release: Callable[[str], Path]) -> Iterator[Object]:
    """Creates a provisioned Cluster with its infrastructure, of providers at the current version."""
    bring(providers, CURRENT, release=release)
    client, about = providers.client, {"name": ONE.name, "namespace": providers.namespace(ONE.namespace)}
    reference = {"apiGroup": DOCKER_CLUSTER.group, "kind": DOCKER_CLUSTER.kind, "name": ONE.name}
    made = client.create(CLUSTER, _object(CLUSTER, about, {"infrastructureRef": reference}))
    owned = {**about, "ownerReferences": [owner_reference(made)]}
    client.create(DOCKER_CLUSTER, _object(DOCKER_CLUSTER, owned, {"loadBalancer": {"disable": True}}))
    initialized = {"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": ""}
    status = {
        "initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True},
        "conditions": [{**initialized, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    yield client.patch(CLUSTER, ONE, {"status": status}, subresource="status")
    _remove(client)


def _object(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def _remove(client: Client) -> None:
    for resource in (DOCKER_CLUSTER, CLUSTER):
        with suppress(NotServed):  # its kind may be gone with the provider
            if client.find(resource, ONE):
                client.delete(resource, ONE)


# -- upgrade plan --------------------------------------------------------------------------------------------------


def test_upgrade_plan_lists_installed_and_next_versions(providers: Providers, configuration: Path, here: Path) -> None:
    for version, following in ((PREVIOUS, [CURRENT]), (CURRENT, ["Already", "up", "to", "date"])):
        bring(providers, version)
        output = run_clusterctl(configuration, here, "upgrade", "plan")
        rows = [line.split() for line in output.splitlines()]
        for kind, name, namespace, _ in PROVIDERS:
            assert [kind.label(name), namespace, kind.kind, version, *following] in rows, output
        assert "Cluster API contract version" in output


# -- describe cluster ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [components])  # clusterctl asks for objects of every kind
def test_describe_cluster_shows_infrastructure(cluster: Object, configuration: Path, here: Path) -> None:
    output = run_clusterctl(configuration, here, "describe", "cluster", ONE.name, "-n", ONE.namespace)
    assert f"Cluster {ONE}" in output
    assert f"DockerCluster {ONE}" in output


# -- move ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(providers: Providers, tmp_path: Path) -> Iterator[tuple[Providers, Path]]:
    """Starts another management cluster with the same releases; returns it with its kubeconfig."""
    with (
        plane_of_providers(tmp_path / "elsewhere") as plane,
        world_of(plane, providers.site, providers.releases) as world,
    ):
        yield world, local_control_plane.kubeconfig(plane)


def test_move_moves_a_cluster_to_another_management_cluster(
    providers: Providers, cluster: Object, configuration: Path, here: Path, elsewhere: tuple[Providers, Path]
) -> None:
    target, kubeconfig = elsewhere
    move = ("move", "--namespace", ONE.namespace, "--to-kubeconfig", str(kubeconfig))
    with pytest.raises(AssertionError, match="check Cluster API version"):  # nobody there
        run_clusterctl(configuration, here, *move)
    bring(target, CURRENT, PROVIDERS[0])
    with pytest.raises(AssertionError, match="docker"):  # nobody there for a part of it
        run_clusterctl(configuration, here, *move)
    assert providers.client.find(CLUSTER, ONE)
    bring(target, CURRENT, PROVIDERS[1])

    run_clusterctl(configuration, here, *move)
    for resource in (CLUSTER, DOCKER_CLUSTER):
        assert providers.client.find(resource, ONE) is None, f"{resource.kind} {ONE} is still there"
    moved = target.client.get(CLUSTER, ONE)
    assert moved["metadata"]["uid"] != cluster["metadata"]["uid"]
    assert moved["spec"]["infrastructureRef"] == cluster["spec"]["infrastructureRef"]
    assert not dig(moved, "spec.paused")
    [owner] = target.client.get(DOCKER_CLUSTER, ONE)["metadata"]["ownerReferences"]
    assert owner["uid"] == moved["metadata"]["uid"]
    assert target.client.find(NAMESPACE, Key("", ONE.namespace))
    # The providers did not move: their deletion waits until no objects of their kinds are left.
    for world in (providers, target):
        for kind, name, namespace, _ in PROVIDERS:
            world.reconcile(kind, name, namespace)
            assert world.condition(world.get(kind, name, namespace), "Ready")["status"] == "True"
    for kind, name, namespace, _ in reversed(PROVIDERS):
        for world in (providers, target):
            world.client.delete(kind.resource, Key(namespace, name))
            world.reconcile(kind, name, namespace)
        assert providers.client.find(kind.resource, Key(namespace, name)) is None
        condition = target.condition(target.get(kind, name, namespace), "Deleting")
        assert condition["reason"] == "CustomResourcesExist"
