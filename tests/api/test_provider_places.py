"""Namespaces that end under a provider, and providers that are in each other's place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.providers import phases
from tests.support.core_provider import CORE_KEY, SPACE, want
from tests.support.provider_releases import config_map, publish, whole
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.until import until


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
