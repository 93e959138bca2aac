"""`provider upgrade` and `provider delete` on a real API server with the real providers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from infra.operations.failure import Failure
from infra.operations.providers import local_managers
from infra.operations.providers.status import list_providers
from shared.api.provider import INFRASTRUCTURE, ProviderKind
from shared.api.resources import NAMESPACE
from shared.kube import Key, deleting, dig
from shared.kube.crds import CRD
from shared.providers.annotations import WEBHOOKS
from tests.support.http_server import Request, Response
from tests.support.objects import manifest
from tests.support.provider_commands import CORE_KEY, Command, core, done, served
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, PREVIOUS, reduced

DOCKER = (INFRASTRUCTURE, "docker", "capd-system")


def both(providers: Providers, version: str) -> None:
    """Installs core and docker."""
    core(providers, version)
    source = {"url": providers.url("infrastructure-components-development.yaml")}
    providers.apply(*DOCKER, {WEBHOOKS: "none"}, version=version, fetchConfig=source)
    providers.until_ready(*DOCKER)


def version_of(providers: Providers, kind: ProviderKind, name: str, namespace: str) -> str:
    return str(dig(providers.get(kind, name, namespace), "spec.version"))


def test_upgrade_of_a_contract_plans_and_changes_all_providers(providers: Providers, command: Command) -> None:
    both(providers, PREVIOUS)
    providers.releases.append(reduced(CURRENT))
    providers.site.answer = listing(providers, PREVIOUS, CURRENT)
    planned = json.loads(done(command("upgrade", "plan", "-o", "json")))
    expected = {"installed": PREVIOUS, "version": CURRENT, "contract": "v1beta2", "obstacle": ""}
    assert [{name: one[name] for name in expected} for one in planned] == [expected, expected]
    text = done(command("upgrade", "plan"))
    assert "provider upgrade apply --contract v1beta2" in text
    result = command("upgrade", "apply", "--contract", "v1beta1")
    assert result.exit_code == 1
    assert f"{CURRENT} has the contract v1beta2" in " ".join(result.stderr.split())
    assert version_of(providers, *CORE_KEY) == PREVIOUS
    with served(providers, CORE_KEY, DOCKER):
        output = done(command("upgrade", "apply", "--contract=v1beta2", "--wait-providers", "--timeout=120"))
    ready = output.index(f"CoreProvider capi-system/cluster-api: {CURRENT} is ready")
    assert ready < output.index(f"InfrastructureProvider capd-system/docker: {CURRENT} is requested")
    assert done(command("upgrade", "plan")).count("Already up to date") == 2
    assert "all providers are up to date" in done(command("upgrade", "apply", "--contract=v1beta2"))


def listing(providers: Providers, *versions: str) -> Callable[[Request], Response]:
    """Returns the answers of a site that also lists its releases."""
    files = providers.site.answer

    def answer(request: Request) -> Response:
        if request.path.startswith("/repos/"):
            return Response(body=json.dumps([{"tag_name": version} for version in versions]).encode())
        return files(request)

    return answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --contract, or providers"),
        (("--contract=v1beta2", "--core=cluster-api:v1.14.0"), "either --contract, or providers"),
        (("--core=cluster-api",), "give a version, as in cluster-api:v1.2.3"),
        (("--ipam=in-cluster:v1.0.0",), "the cluster has no IPAMProvider"),
    ],
)
def test_upgrade_apply_refuses(
    providers: Providers, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    result = command("upgrade", "apply", *arguments)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
    assert not list_providers(providers.client)


def test_managers_of_another_version_than_the_provider_are_refused(providers: Providers) -> None:
    providers.apply(*CORE_KEY, version=PREVIOUS)
    message = rf"CoreProvider capi-system/cluster-api has the version {PREVIOUS}.*runs in version {CURRENT} only"
    with pytest.raises(Failure, match=message):
        local_managers.refuse_other_versions(providers.client, local_managers.parse("docker"))
    providers.apply(*CORE_KEY, version=CURRENT)
    local_managers.refuse_other_versions(providers.client, local_managers.parse("docker"))


def test_upgrade_ends_with_the_refusal_of_a_version(providers: Providers, command: Command) -> None:
    core(providers, CURRENT)
    with served(providers, CORE_KEY):
        result = command("upgrade", "apply", f"--core=cluster-api:{PREVIOUS}", "--wait", "--timeout=300")
    assert result.exit_code == 1
    assert "UnsupportedProviderDowngradeReason" in result.stderr


def test_delete_refuses_what_is_in_use_and_changes_nothing(providers: Providers, command: Command) -> None:
    both(providers, CURRENT)
    providers.namespace("clusters")
    resource = providers.clients.discovery.resource("infrastructure.cluster.x-k8s.io/v1beta2", "DockerCluster")
    assert resource is not None
    cluster = manifest(resource, "one", "clusters")
    providers.client.create(resource, cluster)
    for arguments, message in (
        (("--core=cluster-api", "--yes"), "other providers need the core provider"),
        (("--infrastructure=docker", "--yes"), "objects of the provider's kinds exist: 1 DockerCluster"),
        (("--infrastructure=docker:v1.0.0", "--yes"), f"has {CURRENT} installed, not v1.0.0"),
        (("--all", "--include-crd"), "confirm with --yes"),
        ((), "either --all, or providers"),
    ):
        result = command("delete", *arguments)
        assert result.exit_code == 1, arguments
        assert message in " ".join(result.stderr.split())
    assert not deleting(providers.get(*CORE_KEY))
    assert not deleting(providers.get(*DOCKER))
    with served(providers, DOCKER):
        done(command("delete", "-i", "docker", "--include-crd", "--yes", "--wait", "--timeout=120"))
    assert providers.client.find(DOCKER[0].resource, Key("capd-system", "docker")) is None
    assert providers.client.find(CRD, Key("", "dockerclusters.infrastructure.cluster.x-k8s.io")) is None


def test_delete_all_ends_with_the_namespaces(providers: Providers, command: Command) -> None:
    both(providers, CURRENT)
    with served(providers, DOCKER, CORE_KEY):
        output = done(command("delete", "--all", "--include-namespace", "--yes", "--wait", "--timeout=120"))
    assert "Namespace capd-system: deletion is requested" in output
    for kind, name, namespace in (CORE_KEY, DOCKER):
        assert providers.client.find(kind.resource, Key(namespace, name)) is None
        assert (found := providers.client.find(NAMESPACE, Key("", namespace))) is None or deleting(found)
    assert "the cluster has no providers" in done(command("delete", "--all", "--yes"))
