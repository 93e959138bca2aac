"""The commands of the pages about migrating from clusterctl and Cluster API Operator, as written and in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import local_control_plane
from shared.api.provider import CORE, KINDS
from shared.api.resources import CLUSTERCTL_PROVIDER, CONFIG_MAP, DEPLOYMENT, SECRET
from shared.kube import ApiError, Key, dig, key_of, owner_reference
from tests.support import objects
from tests.support.documents import ROOT, Shell, blocks
from tests.support.other_managers import Manager, running
from tests.support.provider_installers import (
    APPLIED,
    by_operator,
    cert_manager,
    installed,
    kept_by_operator,
    reported_by_operator,
)
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, PROVIDERS, reduced, repository, run_clusterctl
from tests.support.until import until

CLUSTERCTL = ROOT / "docs" / "migrating-from-clusterctl.md"
OPERATOR = ROOT / "docs" / "migrating-from-cluster-api-operator.md"
CORE_KEY = (CORE, "cluster-api", "capi-system")
CORE_PROVIDER = Key("capi-system", "cluster-api")
MANAGER = Key("capi-system", "capi-controller-manager")


@pytest.fixture
def here(provider_plane: Path) -> Path:
    return local_control_plane.kubeconfig(provider_plane)


@pytest.fixture
def of_clusterctl(providers: Providers, here: Path, tmp_path: Path) -> Iterator[Path]:
    """Installs the core provider with clusterctl; returns its configuration. Functions remove all after the test."""
    providers.releases.append(reduced(CURRENT))
    providers.given.add((SECRET, Key(CORE_PROVIDER.namespace, "variables")))
    configuration = repository(tmp_path / "local", CURRENT, release=reduced)
    arguments = ("--core", f"cluster-api:{CURRENT}", "--bootstrap=-", "--control-plane=-")
    with cert_manager(providers.client):
        _await_garbage_collection(providers)
        run_clusterctl(configuration, here, "init", *arguments)
        yield configuration
        providers.apply(*CORE_KEY, version=CURRENT)
        providers.until_ready(*CORE_KEY)


def _await_garbage_collection(providers: Providers) -> None:
    """Waits until the garbage collector knows the kind of clusterctl's records, half a minute after its CRD exists."""
    client = providers.client
    owner = client.create(CONFIG_MAP, objects.manifest(CONFIG_MAP, "owner", "default"))
    metadata = {"ownerReferences": [owner_reference(owner)]}
    fields = {"providerName": "owned", "type": "AddonProvider", "version": "v1.0.0"}
    owned = client.create(
        CLUSTERCTL_PROVIDER, objects.manifest(CLUSTERCTL_PROVIDER, "owned", "default", metadata=metadata, **fields)
    )
    client.delete(CONFIG_MAP, Key("default", "owner"))
    until(lambda: client.find(CLUSTERCTL_PROVIDER, key_of(owned)) is None, "clusterctl's record is collected")


def test_commands_of_the_page_adopt_from_clusterctl_and_go_back(
    providers: Providers, of_clusterctl: Path, shell: Shell, here: Path
) -> None:
    secret, create, plan, resume = blocks(CLUSTERCTL, "Take over")
    [back] = blocks(CLUSTERCTL, "The way back")
    before = providers.client.get(DEPLOYMENT, MANAGER)["metadata"]["uid"]

    shell.run(f"export KUBECONFIG={here}\n{secret}")
    output = shell.run(create)
    assert "kind: CoreProvider" in output
    assert f"CoreProvider capi-system/cluster-api created with {CURRENT}" in output
    assert "only labels, owner references" in shell.run(plan)
    assert CURRENT in shell.run(resume)
    adopted = providers.until_ready(*CORE_KEY)
    assert dig(adopted, "spec.configSecret") == {"name": "variables", "namespace": "capi-system"}
    assert providers.client.get(DEPLOYMENT, MANAGER)["metadata"]["uid"] == before

    shell.run(back)
    assert providers.client.find(CORE.resource, CORE_PROVIDER) is None
    deployment = providers.client.get(DEPLOYMENT, MANAGER)
    assert deployment["metadata"]["uid"] == before
    assert "ownerReferences" not in deployment["metadata"]
    assert CURRENT in run_clusterctl(of_clusterctl, here, "upgrade", "plan")


@pytest.fixture
def operator(providers: Providers) -> Iterator[Manager]:
    called = [(one.resource, kind) for one in KINDS for kind in ("mutating", "validating")]
    key = Key("capi-operator-system", "capi-operator-controller-manager")
    labels = {"clusterctl.cluster.x-k8s.io/core": "capi-operator"}
    installed(providers, CURRENT, by_operator)
    reported = reported_by_operator(providers, CORE_KEY, CURRENT)
    kept_by_operator(providers, reported, CURRENT, PROVIDERS[0].file)
    with running(Manager(providers.client, key, "capi-operator", labels, called)) as manager:
        yield manager


@pytest.fixture
def functions(providers: Providers) -> Iterator[Manager]:
    """The Deployment of the functions of providers."""
    key = Key("capi-functions", "capi-functions-providers")
    with running(Manager(providers.client, key, "none", {"app": "capi-functions-providers"}, ())) as manager:
        yield manager


def test_commands_of_the_page_take_over_from_the_operator_and_go_back(
    providers: Providers, operator: Manager, functions: Manager, shell: Shell, here: Path
) -> None:
    stop, look = blocks(OPERATOR, "Take over")
    [back] = blocks(OPERATOR, "The way back")
    before = providers.client.get(DEPLOYMENT, MANAGER)["metadata"]["uid"]

    def write() -> None:
        patch = {"metadata": {"annotations": {"written": "yes"}}}
        providers.client.patch(CORE.resource, CORE_PROVIDER, patch, manager="user")

    with pytest.raises(ApiError, match=operator.service):
        write()
    shell.run(f"export KUBECONFIG={here}\n{stop}")
    assert operator.replicas() == 0
    write()
    provider = providers.until_ready(*CORE_KEY)
    assert providers.client.get(DEPLOYMENT, MANAGER)["metadata"]["uid"] == before
    assert provider["metadata"]["annotations"][APPLIED] == "0" * 64
    assert CURRENT in shell.run(look)

    shell.run(back)
    assert (operator.replicas(), functions.replicas()) == (1, 0)
    with pytest.raises(ApiError, match=operator.service):
        write()
