"""Sources that fail, return wrong or growing content, and storage that loses objects."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable

import pytest

from shared.api.resources import CONFIG_MAP
from shared.download.access import Access
from shared.download.registry import Layer, Registry
from shared.kube import Object
from shared.providers import phases
from tests.support.api_proxy import Exchange, Proxy, object_store_server
from tests.support.api_proxy import Response as ProxyResponse
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.http_server import Request, Response
from tests.support.provider_releases import METADATA, config_map, text, whole
from tests.support.provider_world import Providers


def failing(providers: Providers, respond: Callable[[bytes], Response]) -> None:
    """Makes the site answer so for components."""
    healthy = providers.site.answer

    def answer(request: Request) -> Response:
        found = healthy(request)
        if "components" not in request.path or found.status != 200:
            return found
        assert isinstance(found.body, bytes)
        return respond(found.body)

    providers.site.answer = answer


@pytest.mark.parametrize(
    ("respond", "word", "after"),
    [
        pytest.param(lambda _: Response(429, headers={"Retry-After": "7"}), "limits requests", 7.0, id="429"),
        pytest.param(lambda _: Response(500), "HTTP 500", 60.0, id="500"),
        pytest.param(lambda _: Response(403), "github-token", 600.0, id="403"),
        pytest.param(
            lambda body: Response(body=body[:20], length=len(body)), "core-components.yaml", 60.0, id="half a body"
        ),
        pytest.param(lambda body: Response(body=gzip.compress(body)), "UTF-8", 600.0, id="no text"),
        pytest.param(
            lambda _: Response(body=(b"# " + b"x" * 2**20 for _ in range(11))), "more than", 600.0, id="endless"
        ),
    ],
)
def test_failing_source_is_reported_and_retried(
    core: FakeProvider, providers: Providers, respond: Callable[[bytes], Response], word: str, after: float
) -> None:
    core.publish("v1.1.0")
    healthy = providers.site.answer
    failing(providers, respond)
    core.apply("v1.1.0")
    assert core.reconcile().retry_after == after
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert word in message
    providers.site.answer = healthy
    core.until_ready()


@pytest.mark.parametrize("what", ["manifest", "file"])
def test_artifact_with_wrong_digest_is_rejected(core: FakeProvider, registry: str, what: str) -> None:
    with Proxy(object_store_server(f"http://{registry}")) as proxy:
        layers = [Layer("metadata.yaml", METADATA.encode(), "text/plain"), _layer([config_map("one", "v1.1.0")])]
        with Registry(registry, "org/provider", Access(), plain=True) as opened:
            opened.push("v1.1.0", layers, artifact_type="application/vnd.example")

        def other(exchange: Exchange) -> None:
            found = exchange.forward()
            exchange.answer(ProxyResponse(found.status, found.body.replace(b"v1.1.0", b"v6.6.6"), found.headers))

        def other_manifest(exchange: Exchange) -> None:
            found = exchange.forward()
            exchange.answer(ProxyResponse(found.status, found.body.replace(b"{", b"{ ", 1), found.headers))

        path = "/manifests/" if what == "manifest" else "/blobs/"
        proxy.fail(other_manifest if what == "manifest" else other, lambda request: path in request.path)
        core.apply("v1.1.0", fetchConfig={"oci": f"http://127.0.0.1:{proxy.port}/org/provider"})
        assert core.reconcile().retry_after
        status, reason, message = core.condition_of()
        assert (status, reason) == ("False", "ComponentsFetchError")
        assert "digest" in message
        proxy.heal()
        core.until_ready()


def _layer(objects: list[Object]) -> Layer:
    return Layer("core-components.yaml", text(objects).encode(), "text/plain")


def test_too_large_config_map_is_rejected(core: FakeProvider, providers: Providers) -> None:
    bomb = base64.b64encode(gzip.compress(b"#" * 2**26)).decode()
    selector = {"matchLabels": {"is": "mine"}}
    components: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "v1.1.0",
            "namespace": providers.namespace(SPACE),
            "labels": {"is": "mine"},
            "annotations": {"provider.cluster.x-k8s.io/compressed": "true"},
        },
        "data": {"metadata": METADATA},
        "binaryData": {"components": bomb},
    }
    providers.client.apply(CONFIG_MAP, components, manager="user")
    core.apply("v1.1.0", fetchConfig={"selector": selector})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "ConfigMap made-up-system/v1.1.0" in message
    components["binaryData"]["components"] = base64.b64encode(
        gzip.compress(text([config_map("one", "v1.1.0")]).encode())
    ).decode()
    providers.client.apply(CONFIG_MAP, components, manager="user")
    core.until_ready()


def test_lost_storage_is_downloaded_again(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.apply("v1.1.0")
    providers.send_to(["provider_preflight", "provider_fetch"], *core.key)
    providers.empty_storage()
    providers.send(phases.completion_event(phases.FETCHED, core.object, resync=False))
    core.until_ready()
    providers.empty_storage()
    sent = len(providers.site.requests)
    core.reconcile()
    assert len(providers.site.requests) == sent, "nothing is to be installed"
    core.reconcile(resync=True)
    core.until_ready()
