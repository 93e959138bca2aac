"""Components as an artifact of an OCI registry: one that fails for a while, and some that ask who it is."""

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
from tests.support.made_up import MadeUp
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
    """Before a registry that has the artifact."""
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
def test_a_registry_that_fails(core: MadeUp, proxy: Proxy, path: str, fault: Fault, words: str, after: float) -> None:
    proxy.fail(fault, lambda request: path in request.path)
    core.want("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"))
    assert core.look().retry_after == after
    status, reason, message = core.told()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert words in message
    assert core.value == ""
    proxy.heal()
    core.until_ready()
    assert core.value == "v1.1.0"


def test_half_an_artifact_is_not_kept(core: MadeUp, proxy: Proxy) -> None:
    """What breaks off comes whole the next time, though it was the last thing missing."""
    blobs: list[str] = []

    def second(exchange: Exchange) -> None:
        blobs.append(exchange.request.path)
        (half_body if len(blobs) == 2 else lambda other: other.answer(other.forward()))(exchange)

    proxy.fail(second, lambda request: "/blobs/" in request.path)
    core.want("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"))
    core.look()
    assert core.told()[:2] == ("False", "ComponentsFetchError")
    assert len(blobs) == 2
    core.until_ready()
    assert core.value == "v1.1.0"


# -- credentials, by the names that Cluster API Operator knows -----------------------------------------------------


@pytest.mark.parametrize("password", ["OCI_PASSWORD", "OCI_REFRESH_TOKEN"])
def test_a_name_and_a_password(core: MadeUp, start_registry: StartRegistry, tmp_path: Path, password: str) -> None:
    host = start_registry(auth=htpasswd(tmp_path))
    push(host, Access(username=USER, password=PASSWORD))
    core.providers.secret("access", core.namespace, **{"OCI_USERNAME": USER, password: "wrong"})
    core.want("v1.1.0", fetchConfig=config(host), configSecret={"name": "access"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "the credentials are not accepted" in message
    core.providers.secret("access", core.namespace, **{"OCI_USERNAME": USER, password: PASSWORD})
    provider = core.until_ready()
    assert core.value == "v1.1.0"
    assert PASSWORD not in str(provider)


def test_a_token(core: MadeUp, proxy: Proxy) -> None:
    def guarded(exchange: Exchange) -> None:
        if exchange.request.headers.get("Authorization") != f"Bearer {TOKEN}":
            answering(401, WWW_Authenticate='Bearer realm="http://127.0.0.1:9/none"')(exchange)
        else:
            exchange.answer(exchange.forward())

    proxy.fail(guarded)
    core.providers.secret("access", core.namespace, OCI_ACCESS_TOKEN="another")
    core.want("v1.1.0", fetchConfig=config(f"127.0.0.1:{proxy.port}"), configSecret={"name": "access"})
    core.look()
    assert "the credentials are not accepted" in core.told()[2]
    core.providers.secret("access", core.namespace, OCI_ACCESS_TOKEN=TOKEN)
    provider = core.until_ready()
    assert core.value == "v1.1.0"
    assert TOKEN not in str(provider)


def test_variables_that_are_no_text(core: MadeUp) -> None:
    """They are as if they were not there, whatever else the Secret holds; so whoever needs one is told its name."""
    core.publish("v1.1.0", [config_map("cluster-api", "${SAID}, ${PICTURE}")])
    core.providers.secret("variables", core.namespace, SAID="hello")
    key = Key(core.namespace, "variables")
    core.providers.client.patch(SECRET, key, {"data": {"PICTURE": "/9j/4AD/"}})
    core.want("v1.1.0", configSecret={"name": "variables"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "[PICTURE]" in message
    core.providers.client.patch(SECRET, key, {"data": {"PICTURE": "YSBjYXQ=", "UNUSED": "/9j/4AD/"}})
    core.until_ready()
    assert core.value == "hello, a cat"
