"""Cluster API Operator installs a provider, our functions take it over by the page, and the operator gets it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.local import crds
from shared.api.conditions import READY, is_true
from shared.api.provider import CORE, GROUP
from shared.api.resources import CLUSTERCTL_PROVIDER, DEPLOYMENT
from shared.kube import ApiError, Client, Key, Object, dig
from tests.support.documents import ROOT, Shell, blocks
from tests.support.http_server import HttpServer, Response
from tests.support.other_managers import Manager, running
from tests.support.planes import running_plane
from tests.support.ports import free_port
from tests.support.provider_installers import APPLIED, cert_manager
from tests.support.provider_world import Providers, world_of
from tests.support.real_managers import RealManager
from tests.support.real_providers import CURRENT, DOWNLOADS, PREVIOUS, PROVIDERS, reduced
from tests.support.until import logged, until

MODULE, VERSION = "sigs.k8s.io/cluster-api-operator", "v0.29.0"
PAGE = ROOT / "docs" / "migrating-from-cluster-api-operator.md"
CORE_KEY = (CORE, "cluster-api", "capi-system")
PROVIDER = Key("capi-system", "cluster-api")
MANAGER = Key("capi-system", "capi-controller-manager")
OPERATOR = Key("capi-operator-system", "capi-operator-controller-manager")
SELECTED = {"provider": "core"}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Path]:
    """A control plane with Kubernetes' controllers and clusterctl's kind, and without the kinds of providers."""
    with running_plane(tmp_path / "plane", groups=(CLUSTERCTL_PROVIDER.group,), controllers=True) as folder:
        yield folder


@pytest.fixture
def providers(plane: Path, object_store: object) -> Iterator[Providers]:
    """Our functions in that control plane. They reach no source of releases."""
    with HttpServer(lambda _: Response(404)) as site, world_of(plane, site, []) as world:
        yield world


@pytest.fixture
def operator(providers: Providers, plane: Path, kubectl: Path, tmp_path: Path) -> Iterator[RealManager]:
    folder = tmp_path / "operator"
    folder.mkdir()
    kubeconfig = local_control_plane.kubeconfig(plane)
    manager = RealManager(providers.client, kubeconfig, folder, MODULE, VERSION, OPERATOR, free_port())
    with cert_manager(providers.client):
        manager.install(kubectl)
        yield manager


@pytest.fixture
def functions(providers: Providers) -> Iterator[Manager]:
    """The Deployment of the functions of providers."""
    key = Key("capi-functions", "capi-functions-providers")
    with running(Manager(providers.client, key, "none", {"app": "capi-functions-providers"}, ())) as manager:
        yield manager


@pytest.mark.timeout(3600)
def test_provider_changes_hands_without_a_rollout(
    providers: Providers, operator: RealManager, functions: Manager, shell: Shell
) -> None:
    client, details = providers.client, logged(operator.log)
    _offer(providers, CURRENT)
    with _process(operator):
        until(lambda: not _refusal(providers), "the webhooks answer", details=details)
        installed = until(lambda: _ready(client), "the operator installs", details=details)
        before = _state(providers)

    _take_over(providers, operator, shell)
    taken = client.get(CORE.resource, PROVIDER)
    assert _state(providers) == before
    assert taken["spec"] == installed["spec"]
    assert taken["metadata"]["annotations"][APPLIED] == installed["metadata"]["annotations"][APPLIED]

    _go_back(operator, functions, shell)
    with _process(operator):
        until(lambda: _has_looked(operator), "the operator looks", details=details)
        assert _state(providers) == before
        client.patch(CORE.resource, PROVIDER, {"spec": {"deployment": {"replicas": 2}}}, manager="user")
        until(
            lambda: dig(client.get(DEPLOYMENT, MANAGER), "spec.replicas") == 2,
            "the operator changes the Deployment",
            details=details,
        )
    assert before.items() - _state(providers).items() == {("generation", before["generation"])}


@pytest.mark.timeout(3600)
def test_operator_gets_back_what_the_functions_have_upgraded(
    providers: Providers, operator: RealManager, functions: Manager, shell: Shell
) -> None:
    details = logged(operator.log)
    _offer(providers, PREVIOUS)
    with _process(operator):
        until(lambda: not _refusal(providers, PREVIOUS), "the webhooks answer", details=details)
        until(lambda: _ready(providers.client), "the operator installs", details=details)
        before = _state(providers)

    _take_over(providers, operator, shell)
    _offer(providers, CURRENT)
    assert _refusal(providers) == ""
    upgraded = providers.until_ready(*CORE_KEY)
    assert dig(upgraded, "status.installedVersion") == CURRENT
    after = _state(providers)
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == {"generation"}

    _go_back(operator, functions, shell)
    with _process(operator):
        until(lambda: "Provider successfully installed" in operator.log.read_text(), "the operator", details=details)
    assert _state(providers) == after


def _offer(providers: Providers, version: str) -> None:
    """Keeps the components of this version, and of no other, where the CoreProvider selects them."""
    release = reduced(version) / DOWNLOADS / version
    files = {"components": PROVIDERS[0].file, "metadata": "metadata.yaml"}
    texts = {name: (release / file).read_text() for name, file in files.items()}
    labels = {**SELECTED, "provider.cluster.x-k8s.io/version": version}
    providers.config_map("core", PROVIDER.namespace, labels, **texts)


def _state(providers: Providers) -> dict[str, object]:
    """Returns the uids of all that the provider has brought, pods included, and the generation of its Deployment."""
    found = providers.brought(PROVIDERS[0].label)
    found.pop(f"{CLUSTERCTL_PROVIDER.kind} {PROVIDER}", None)  # only our functions write clusterctl's record
    return {**found, "generation": providers.client.get(DEPLOYMENT, MANAGER)["metadata"]["generation"]}


def _take_over(providers: Providers, operator: RealManager, shell: Shell) -> None:
    stop, look = blocks(PAGE, "Take over")
    assert "failed calling webhook" in _refusal(providers, name="other")
    shell.run(f"export KUBECONFIG={operator.kubeconfig}\n{stop}")
    assert operator.replicas() == 0
    crds.install(providers.client, [crd for crd in crds.load() if dig(crd, "spec.group") == GROUP])
    version = dig(providers.until_ready(*CORE_KEY), "status.installedVersion")
    assert version in shell.run(look)


def _go_back(operator: RealManager, functions: Manager, shell: Shell) -> None:
    [back] = blocks(PAGE, "The way back")
    shell.run(back)
    assert (operator.replicas(), functions.replicas()) == (1, 0)


def _process(operator: RealManager) -> AbstractContextManager[None]:
    flags = (
        f"--webhook-port={operator.port}",
        f"--webhook-cert-dir={operator.folder}",
        f"--health-addr=127.0.0.1:{free_port()}",
        "--diagnostics-address=127.0.0.1:0",
        "--insecure-diagnostics",
        "--profiler-address=",
        "--v=2",
    )
    return operator.process("cmd", flags)


def _refusal(providers: Providers, version: str = CURRENT, name: str = PROVIDER.name) -> str:
    """Applies a CoreProvider; returns the error, which is empty if the write is accepted."""
    kind, _, namespace = CORE_KEY
    try:
        providers.apply(kind, name, namespace, version=version, fetchConfig={"selector": {"matchLabels": SELECTED}})
    except ApiError as error:
        return error.detail
    return ""


def _ready(client: Client) -> Object | None:
    provider = client.get(CORE.resource, PROVIDER)
    return provider if is_true(dig(provider, "status.conditions"), READY) else None


def _has_looked(operator: RealManager) -> bool:
    """Returns whether the running manager has applied what it keeps, and fails if it installs anew."""
    text = operator.log.read_text()
    assert "Installing provider" not in text
    return "Applied all objects from cache" in text
