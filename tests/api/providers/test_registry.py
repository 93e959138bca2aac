"""Components in an OCI registry: failures, interrupted downloads, credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.api.resources import SECRET
from shared.components.repositories import Files
from shared.components.repositories.oci import ARTIFACT_TYPE, layers_of
from shared.download.access import Access
from shared.download.registry import Registry
from shared.kube import Key
from tests.support.api_proxy import Exchange, Fault, Proxy, answering, half_body, object_store_server
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import METADATA, config_map, text
from tests.support.registry import PASSWORD, USER, StartRegistry, htpasswd

REPOSITORY = "org/provider"
TOKEN = "t0ken-of-mine"


def push(host: str, access: Access | None = None) -> None:
    files = Files(METADATA, text([config_map("cluster-api", "v1.1.0")]))
    with Registry(host, REPOSITORY, access or Access(), plain=True) as registry:
        registry.push("v1.1.0", layers_of("core", "cluster-api", "v1.1.0", files), artifact_type=ARTIFACT_TYPE)


def config(host: str) -> dict[str, str]:
    return {"oci": f"http://{host}/{REPOSITORY}"}


@pytest.fixture
def proxy(registry: str) -> Iterator[Proxy]:
    """A proxy in front of a registry that has the artifact."""
    push(registry)
    with Proxy(object_store_server(f"http://{registry}")) as proxy:
        yield proxy


@pytest.mark.parametrize("path", ["/manifests/", "/blobs/"])
@pytest.mark.parametrize(
    ("fault", "words", "after"),
    [
        pytest.param(answering(429, Retry_After="7"), "limits requests; the next request is in 7 s", 7.0, id="429"),
        pytest.param(answering(500), "answers with HTTP 500", 60.0, id="500"),
        pytest.param(half_body, "127.0.0.1", 60.0, id="half a body"),
    ],
)
def test_failing_registry_is_reported_and_retried(
    core: FakeProvider, proxy: Proxy, path: str, fault: Fault, words: str, after: float
) -> None:
    proxy.fail(fault, lambda request: path in request.path)
    core.apply("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"))
    assert core.reconcile().retry_after == after
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert words in message
    assert core.value == ""
    proxy.heal()
    core.until_ready()
    assert core.value == "v1.1.0"


def test_interrupted_download_is_not_stored(core: FakeProvider, proxy: Proxy) -> None:
    """The next attempt downloads everything, even if only the last part was missing."""
    blobs: list[str] = []

    def second(exchange: Exchange) -> None:
        blobs.append(exchange.request.path)
        (half_body if len(blobs) == 2 else lambda other: other.answer(other.forward()))(exchange)

    proxy.fail(second, lambda request: "/blobs/" in request.path)
    core.apply("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"))
    core.reconcile()
    assert core.condition_of()[:2] == ("False", "ComponentsFetchError")
    assert len(blobs) == 2
    core.until_ready()
    assert core.value == "v1.1.0"


# -- credentials, by Cluster API Operator's names ------------------------------------------------------------------


@pytest.mark.parametrize("password", ["OCI_PASSWORD", "OCI_REFRESH_TOKEN"])
def test_password_opens_the_registry(
    core: FakeProvider, start_registry: StartRegistry, tmp_path: Path, password: str
) -> None:
    host = start_registry(auth=htpasswd(tmp_path))
    push(host, Access(username=USER, password=PASSWORD))
    core.providers.secret("access", core.namespace, **{"OCI_USERNAME": USER, password: "wrong"})
    core.apply("v1.1.0", fetchConfig=config(host), configSecret={"name": "access"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "the credentials are not accepted" in message
    core.providers.secret("access", core.namespace, **{"OCI_USERNAME": USER, password: PASSWORD})
    provider = core.until_ready()
    assert core.value == "v1.1.0"
    assert PASSWORD not in str(provider)


def test_token_opens_the_registry(core: FakeProvider, proxy: Proxy) -> None:
    def guarded(exchange: Exchange) -> None:
        if exchange.request.headers.get("Authorization") != f"Bearer {TOKEN}":
            answering(401, WWW_Authenticate='Bearer realm="http://127.0.0.1:9/none"')(exchange)
        else:
            exchange.answer(exchange.forward())

    proxy.fail(guarded)
    core.providers.secret("access", core.namespace, OCI_ACCESS_TOKEN="another")
    core.apply("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"), configSecret={"name": "access"})
    core.reconcile()
    assert "the credentials are not accepted" in core.condition_of()[2]
    core.providers.secret("access", core.namespace, OCI_ACCESS_TOKEN=TOKEN)
    provider = core.until_ready()
    assert core.value == "v1.1.0"
    assert TOKEN not in str(provider)


def test_binary_variables_are_treated_as_missing(core: FakeProvider) -> None:
    """The message names a variable that the components need."""
    core.publish("v1.1.0", [config_map("cluster-api", "${SAID}, ${PICTURE}")])
    core.providers.secret("variables", core.namespace, SAID="hello")
    key = Key(core.namespace, "variables")
    core.providers.client.patch(SECRET, key, {"data": {"PICTURE": "/9j/4AD/"}})
    core.apply("v1.1.0", configSecret={"name": "variables"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "[PICTURE]" in message
    core.providers.client.patch(SECRET, key, {"data": {"PICTURE": "YSBjYXQ=", "UNUSED": "/9j/4AD/"}})
    core.until_ready()
    assert core.value == "hello, a cat"
