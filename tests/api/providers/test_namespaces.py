"""Namespaces that are deleted and recreated, and providers that exclude each other."""

from __future__ import annotations

from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, ProviderKind
from shared.api.resources import CONFIG_MAP, NAMESPACE
from shared.kube import Key, Object, dig
from shared.providers import phases
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import config_map, whole
from tests.support.provider_world import Providers
from tests.support.until import until


def test_provider_is_installed_in_a_recreated_namespace(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: dig(core.object, "metadata.deletionTimestamp"))
    core.reconcile()
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    assert providers.brought() == {}
    providers.namespaces.discard(SPACE)
    core.install("v1.1.0")


def test_terminating_namespace_gets_no_objects(core: FakeProvider, providers: Providers) -> None:
    """Another finalizer keeps the provider, and so the namespace, before any object exists."""
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    held: Object = {**config_map("held", "x"), "metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    providers.namespace(SPACE)
    held["metadata"]["namespace"] = SPACE
    providers.client.create(CONFIG_MAP, held)
    core.apply("v1.1.0")
    providers.send_to(["provider_preflight", "provider_fetch"], *core.key)
    event = phases.completion_event(phases.FETCHED, core.object, resync=False)
    providers.client.delete(NAMESPACE, Key("", SPACE))
    until(lambda: core.gone)
    providers.send(event)
    assert providers.brought() == {}
    providers.client.patch(CONFIG_MAP, Key(SPACE, "held"), {"metadata": {"finalizers": None}})
    until(lambda: providers.client.find(NAMESPACE, Key("", SPACE)) is None)
    providers.namespaces.discard(SPACE)
    core.install("v1.1.0")


def test_recreated_objects_are_deleted_with_their_provider(core: FakeProvider, providers: Providers) -> None:
    """The process ended before it recorded the new uids."""
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    provider = core.install("v1.1.0")
    entries = dig(provider, "status.resources")
    begun = [{**entry, "uid": "of-the-former-one", "status": "not-synced"} for entry in entries]
    providers.client.patch(CORE.resource, core.at, {"status": {"resources": begun}}, subresource="status")
    core.delete()
    assert providers.brought() == {}


def test_second_core_provider_waits_for_the_deletion_of_the_first(core: FakeProvider) -> None:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    second = core.other(CORE, "cluster-api", "other-system")
    second.apply("v1.1.0")
    second.reconcile()
    _, reason, message = second.condition_of("PreflightCheckPassed")
    assert reason == "MoreThanOneExists"
    assert "made-up-system/cluster-api" in message
    for resync in (False, True):  # the first is left as it is
        core.reconcile(resync=resync)
        assert core.installed == "v1.1.0"
    assert not dig(second.object, "status.resources")
    core.delete()
    second.until_ready()


def test_two_kinds_may_have_one_name_in_one_namespace(core: FakeProvider, providers: Providers) -> None:
    core.publish("v1.1.0")
    core.install("v1.1.0")
    bootstrap, infrastructure = (core.other(kind, "same") for kind in (BOOTSTRAP, INFRASTRUCTURE))
    for each in (bootstrap, infrastructure):
        each.publish("v1.1.0", whole(each.kind.type_name, "v1.1.0"))
        each.apply("v1.1.0")
    for each in (bootstrap, infrastructure):
        each.until_ready()
        assert _named(providers, each.kind) > 10
    bootstrap.delete()
    assert _named(providers, BOOTSTRAP) == 0
    assert _named(providers, INFRASTRUCTURE) > 10


def _named(providers: Providers, kind: ProviderKind) -> int:
    return sum(f"{kind.type_name}" in name for name in providers.brought())
