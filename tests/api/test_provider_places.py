"""Namespaces that end under a provider, and providers that are in each other's place."""

from __future__ import annotations

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.providers import phases
from tests.support.made_up import SPACE, MadeUp
from tests.support.provider_releases import config_map, whole
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.until import until


def test_a_namespace_that_ends_and_is_made_again(core: MadeUp, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: dig(core.object, "metadata.deletionTimestamp"))
    core.look()
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    assert providers.brought() == {}
    providers.namespaces.discard(SPACE)
    core.install("v1.1.0")


def test_a_namespace_that_is_terminating(core: MadeUp, providers: Providers) -> None:
    """Somebody's finalizer keeps the provider, and so its namespace; before there is anything to be deleted."""
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    held: Object = {**config_map("held", "x"), "metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    providers.namespace(SPACE)
    held["metadata"]["namespace"] = SPACE
    providers.client.create(CONFIG_MAP, held)
    core.want("v1.1.0")
    providers.send_to(["provider_preflight", "provider_fetch"], *core.key)
    event = phases.next_step(phases.FETCHED, core.object, resync=False)
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: core.gone)
    providers.send(event)
    assert providers.brought() == {}
    providers.client.patch(CONFIG_MAP, Key(SPACE, "held"), {"metadata": {"finalizers": None}})
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    providers.namespaces.discard(SPACE)
    core.install("v1.1.0")


def test_what_was_made_anew_goes_with_its_provider(core: MadeUp, providers: Providers) -> None:
    """A process died after it had made objects anew, and before it could tell their uids."""
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    provider = core.install("v1.1.0")
    entries = dig(provider, "status.resources")
    begun = [{**entry, "uid": "of-the-former-one", "status": "not-synced"} for entry in entries]
    providers.client.patch(CORE.resource, core.at, {"status": {"resources": begun}}, subresource="status")
    core.delete()
    assert providers.brought() == {}


def test_two_core_providers(core: MadeUp) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    second = core.other(CORE, "cluster-api", "other-system")
    second.want("v1.1.0")
    second.look()
    _, reason, message = second.told("PreflightCheckPassed")
    assert reason == "MoreThanOneExists"
    assert "made-up-system/cluster-api" in message
    for resync in (False, True):  # the first is left as it is
        core.look(resync=resync)
        assert core.installed == "v1.1.0"
    assert not dig(second.object, "status.resources")
    core.delete()
    second.until_ready()


def test_one_name_in_two_kinds_and_one_namespace(core: MadeUp, providers: Providers) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    bootstrap, infrastructure = (core.other(kind, "same") for kind in (BOOTSTRAP, INFRASTRUCTURE))
    for each in (bootstrap, infrastructure):
        each.publish("v1.1.0", whole(each.kind.type_name, "v1.1.0"))
        each.want("v1.1.0")
    for each in (bootstrap, infrastructure):
        each.until_ready()
        assert _named(providers, each.kind) > 10
    bootstrap.delete()
    assert _named(providers, BOOTSTRAP) == 0
    assert _named(providers, INFRASTRUCTURE) > 10


def _named(providers: Providers, kind: ProviderKind) -> int:
    return sum(f"{kind.type_name}" in name for name in providers.brought())
