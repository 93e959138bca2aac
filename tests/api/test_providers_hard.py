"""Providers whose sources fail, lie or grow, whose components are odd, and whose place is taken away under them."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from shared.providers import phases
from shared.releases.registry import Layer, Registry
from shared.releases.sources.access import Access
from tests.support.api_proxy import Exchange, Proxy, Response, object_store_server
from tests.support.provider_releases import METADATA, WEBHOOKS, config_map, crd, publish, text, whole, widget
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.site import Asked, Told
from tests.support.until import until

SPACE = "made-up-system"
CORE_KEY = (CORE, "cluster-api", SPACE)


@pytest.fixture(autouse=True)
def releases(providers: Providers, tmp_path: Path) -> Path:
    providers.releases.append(tmp_path)
    return tmp_path


def want(providers: Providers, version: str, **spec: Any) -> None:
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, version=version, **{"fetchConfig": config, **spec})


def condition(providers: Providers, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
    found = providers.condition(providers.get(*CORE_KEY), type_)
    return found["status"], found["reason"], found["message"]


def failing(providers: Providers, told: Callable[[bytes], Told]) -> None:
    """The site answers so for components, from now on."""
    healthy = providers.site.answer

    def answer(asked: Asked) -> Told:
        found = healthy(asked)
        if "components" not in asked.path or found.status != 200:
            return found
        assert isinstance(found.body, bytes)
        return told(found.body)

    providers.site.answer = answer


# -- sources -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "word", "after"),
    [
        pytest.param(lambda _: Told(429, headers={"Retry-After": "7"}), "limits requests", 7.0, id="429"),
        pytest.param(lambda _: Told(500), "HTTP 500", 60.0, id="500"),
        pytest.param(lambda _: Told(403), "github-token", 600.0, id="403"),
        pytest.param(
            lambda body: Told(body=body[:20], length=len(body)), "core-components.yaml", 60.0, id="half a body"
        ),
        pytest.param(lambda body: Told(body=gzip.compress(body)), "UTF-8", 600.0, id="no text"),
        pytest.param(lambda _: Told(body=(b"# " + b"x" * 2**20 for _ in range(11))), "more than", 600.0, id="endless"),
    ],
)
def test_sources_that_fail(
    providers: Providers, releases: Path, told: Callable[[bytes], Told], word: str, after: float
) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    healthy = providers.site.answer
    failing(providers, told)
    want(providers, "v1.1.0")
    assert providers.settle(*CORE_KEY).retry_after == after
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert word in message
    providers.site.answer = healthy
    providers.until_ready(*CORE_KEY)


@pytest.mark.parametrize("what", ["manifest", "file"])
def test_an_artifact_that_is_not_what_its_digest_says(providers: Providers, registry: str, what: str) -> None:
    with Proxy(object_store_server(f"http://{registry}")) as proxy:
        layers = [Layer("metadata.yaml", METADATA.encode(), "text/plain"), _layer([config_map("one", "v1.1.0")])]
        with Registry(registry, "org/provider", Access(), plain=True) as opened:
            opened.push("v1.1.0", layers, artifact_type="application/vnd.example")

        def other(exchange: Exchange) -> None:
            found = exchange.forward()
            exchange.answer(Response(found.status, found.body.replace(b"v1.1.0", b"v6.6.6"), found.headers))

        def other_manifest(exchange: Exchange) -> None:
            found = exchange.forward()
            exchange.answer(Response(found.status, found.body.replace(b"{", b"{ ", 1), found.headers))

        path = "/manifests/" if what == "manifest" else "/blobs/"
        proxy.fail(other_manifest if what == "manifest" else other, lambda request: path in request.path)
        want(providers, "v1.1.0", fetchConfig={"oci": f"http://127.0.0.1:{proxy.port}/org/provider"})
        assert providers.settle(*CORE_KEY).retry_after
        status, reason, message = condition(providers)
        assert (status, reason) == ("False", "ComponentsFetchError")
        assert "digest" in message
        proxy.heal()
        providers.until_ready(*CORE_KEY)


def _layer(objects: list[Object]) -> Layer:
    return Layer("core-components.yaml", text(objects).encode(), "text/plain")


def test_a_config_map_that_would_grow(providers: Providers) -> None:
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
    want(providers, "v1.1.0", fetchConfig={"selector": selector})
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "ConfigMap made-up-system/v1.1.0" in message
    components["binaryData"]["components"] = base64.b64encode(
        gzip.compress(text([config_map("one", "v1.1.0")]).encode())
    ).decode()
    providers.client.apply(CONFIG_MAP, components, manager="user")
    providers.until_ready(*CORE_KEY)


def test_storage_that_is_emptied_between_phases(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    providers.send_to(["provider_preflight", "provider_fetch"], *CORE_KEY)
    providers.empty_storage()
    providers.send(phases.next_step(phases.FETCHED, providers.get(*CORE_KEY), resync=False))
    providers.until_ready(*CORE_KEY)
    providers.empty_storage()
    asked = len(providers.site.asked)
    providers.settle(*CORE_KEY)
    assert len(providers.site.asked) == asked, "nothing is to be installed"
    providers.settle(*CORE_KEY, resync=True)
    providers.until_ready(*CORE_KEY)


# -- components ----------------------------------------------------------------------------------------------------


def test_a_kind_that_comes_later(providers: Providers, releases: Path) -> None:
    custom = {"apiVersion": widget("later").api_version, "kind": "Widget", "metadata": {"name": "one"}}
    publish(releases, "v1.1.0", [custom])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "InstallFailed")
    assert "Widget (later.example.com/v1)" in message
    assert "management cluster" in message
    providers.client.create(CRD, crd("later"))
    try:
        providers.until_ready(*CORE_KEY)
        providers.client.get(widget("later"), Key(SPACE, "one"))
    finally:
        providers.client.delete(CRD, Key("", "widgets.later.example.com"))


def test_two_megabytes_of_kinds(providers: Providers, releases: Path) -> None:
    objects = [_large(crd(f"large-{number}"), 70_000, "word ") for number in range(30)]
    publish(releases, "v1.1.0", objects)
    assert len(text(objects)) > 2_000_000
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    providers.apply(
        *CORE_KEY, annotations, version="v1.1.0", fetchConfig={"url": providers.url("core-components.yaml")}
    )
    providers.until_ready(*CORE_KEY)
    kept = providers.client.get(CONFIG_MAP, Key(SPACE, "core-cluster-api-v1.1.0"))
    assert dig(kept, ("metadata", "annotations", "provider.cluster.x-k8s.io/compressed")) == "true"
    packed = dig(kept, "binaryData.components")
    assert gzip.decompress(base64.b64decode(packed)).decode() == text(objects)
    providers.empty_storage()  # and nobody to ask: what was kept is enough
    providers.releases.clear()
    providers.apply(
        *CORE_KEY,
        annotations,
        version="v1.1.0",
        fetchConfig={"url": providers.url("core-components.yaml")},
        deployment={"replicas": 2},
    )
    providers.until_ready(*CORE_KEY)


def test_what_is_too_large_to_be_kept_is_told(providers: Providers, releases: Path) -> None:
    noise = random.Random(1)
    words = "".join(chr(noise.randint(97, 122)) for _ in range(2_500_000))
    publish(releases, "v1.1.0", f"# {words}\n" + text([config_map("one", "v1.1.0")]))
    annotations = {"capi-functions.dev/keep-download": "config-map"}
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, annotations, version="v1.1.0", fetchConfig=config)
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "ComponentsFetchError")
    assert "capi-functions.dev/keep-download" in message
    providers.client.patch(
        CORE.resource, Key(SPACE, "cluster-api"), {"metadata": {"annotations": dict.fromkeys(annotations)}}
    )
    providers.until_ready(*CORE_KEY)


def _large(obj: Object, size: int, word: str) -> Object:
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = word * (size // len(word))
    return obj


def test_an_upgrade_of_webhooks_alone(providers: Providers, releases: Path) -> None:
    """What answers them runs already."""
    objects = whole("made-up", "v1.1.0")
    publish(releases, "v1.1.0", objects)
    objects[-1]["webhooks"][0]["timeoutSeconds"] = 2
    publish(releases, "v1.2.0", objects)
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    before = providers.requests
    assert providers.settle(*CORE_KEY).status == 204
    assert providers.requests - before < 80
    webhook = providers.client.get(WEBHOOKS, Key("", "made-up-validating"))
    assert dig(webhook, "webhooks")[0]["timeoutSeconds"] == 2
    assert condition(providers)[0] == "True"


def test_objects_that_come_twice(providers: Providers, releases: Path) -> None:
    """As in clusterctl the last counts, and it is there once."""
    publish(releases, "v1.1.0", [config_map("one", "first"), config_map("one", "last")])
    want(providers, "v1.1.0")
    core = providers.until_ready(*CORE_KEY)
    assert dig(providers.client.get(CONFIG_MAP, Key(SPACE, "one")), "data.value") == "last"
    assert [entry["name"] for entry in dig(core, "status.resources") if entry["kind"] == "ConfigMap"] == ["one"]


def test_two_namespaces_are_refused(providers: Providers, releases: Path) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("a", "b")]
    publish(releases, "v1.1.0", [*spaces, config_map("one", "first")])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    assert "no more than one resource with Kind Namespace" in condition(providers)[2]


def test_a_refusal_of_any_length_is_told(providers: Providers, releases: Path) -> None:
    broken = crd("broken")
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {f"{'field' * 20}{number}": {"type": "wrong"} for number in range(2000)},
    }
    publish(releases, "v1.1.0", [broken])
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    status, reason, message = condition(providers)
    assert (status, reason) == ("False", "InstallFailed")
    assert "widgets.broken.example.com" in message
    assert len(message) < 10_000


def test_annotations_that_say_nothing_known(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    config = {"url": providers.url("core-components.yaml")}
    for name, value in {"conflicts": "perhaps", "wait-timeout": "soon", "keep-download": "yes"}.items():
        providers.apply(
            *CORE_KEY, {f"capi-functions.dev/{name}": value, "x": "y"}, version="v1.1.0", fetchConfig=config
        )
        providers.settle(*CORE_KEY)
        status, reason, message = condition(providers)
        assert (status, reason) == ("False", "InvalidAnnotation"), name
        assert f"capi-functions.dev/{name}" in message
        assert value in message
    providers.apply(*CORE_KEY, {"capi-functions.dev/unheard-of": "1"}, version="v1.1.0", fetchConfig=config)
    providers.until_ready(*CORE_KEY)


# -- places --------------------------------------------------------------------------------------------------------


def test_a_namespace_that_ends_and_is_made_again(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: dig(providers.client.find(*_core()), "metadata.deletionTimestamp"))
    providers.settle(*CORE_KEY)
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    assert providers.brought() == {}
    providers.namespaces.discard(SPACE)
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)


def test_a_namespace_that_is_terminating(providers: Providers, releases: Path) -> None:
    """Somebody's finalizer keeps the provider, and so its namespace; before there is anything to be deleted."""
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    held: Object = {**config_map("held", "x"), "metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    providers.namespace(SPACE)
    held["metadata"]["namespace"] = SPACE
    providers.client.create(CONFIG_MAP, held)
    want(providers, "v1.1.0")
    providers.send_to(["provider_preflight", "provider_fetch"], *CORE_KEY)
    event = phases.next_step(phases.FETCHED, providers.get(*CORE_KEY), resync=False)
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: providers.client.find(*_core()) is None)
    providers.send(event)
    assert providers.brought() == {}
    providers.client.patch(CONFIG_MAP, Key(SPACE, "held"), {"metadata": {"finalizers": None}})
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    providers.namespaces.discard(SPACE)
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)


def _core() -> tuple[Any, Key]:
    return CORE.resource, Key(SPACE, "cluster-api")


def test_what_was_made_anew_goes_with_its_provider(providers: Providers, releases: Path) -> None:
    """A process died after it had made objects anew, and before it could tell their uids."""
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    core = providers.until_ready(*CORE_KEY)
    begun = [{**entry, "uid": "of-the-former-one", "status": "not-synced"} for entry in dig(core, "status.resources")]
    providers.client.patch(*_core(), {"status": {"resources": begun}}, subresource="status")
    providers.client.delete(*_core())
    providers.settle(*CORE_KEY)
    assert providers.brought() == {}


def test_two_core_providers(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", whole("made-up", "v1.1.0"))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    second = (CORE, "cluster-api", "other-system")
    providers.apply(*second, version="v1.1.0", fetchConfig={"url": providers.url("core-components.yaml")})
    providers.settle(*second)
    told = providers.condition(providers.get(*second), "PreflightCheckPassed")
    assert told["reason"] == "MoreThanOneExists"
    assert "made-up-system/cluster-api" in told["message"]
    for resync in (False, True):  # the first is left as it is
        providers.settle(*CORE_KEY, resync=resync)
        assert dig(providers.get(*CORE_KEY), "status.installedVersion") == "v1.1.0"
    assert not dig(providers.get(*second), "status.resources")
    providers.client.delete(*_core())
    providers.settle(*CORE_KEY)
    providers.until_ready(*second)


def test_one_name_in_two_kinds_and_one_namespace(providers: Providers, releases: Path) -> None:
    publish(releases, "v1.1.0", [config_map("core", "1")])
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    for kind in (BOOTSTRAP, INFRASTRUCTURE):
        publish(releases, "v1.1.0", whole(kind.word, "v1.1.0"), kind)
        providers.apply(kind, "same", SPACE, version="v1.1.0", fetchConfig={"url": providers.url(kind.file)})
    for kind in (BOOTSTRAP, INFRASTRUCTURE):
        providers.until_ready(kind, "same", SPACE)
        assert _named(providers, kind) > 10
    providers.client.delete(BOOTSTRAP.resource, Key(SPACE, "same"))
    providers.settle(BOOTSTRAP, "same", SPACE)
    assert _named(providers, BOOTSTRAP) == 0
    assert _named(providers, INFRASTRUCTURE) > 10


def _named(providers: Providers, kind: ProviderKind) -> int:
    return sum(f"{kind.word}" in name for name in providers.brought())
