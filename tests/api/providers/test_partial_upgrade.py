"""An upgrade that the API server rejects half-way: the report, the objects, and the continuation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.api.resources import CONFIG_MAP, DEPLOYMENT, SERVICE
from shared.kube import Key, Object, dig, key_of
from tests.support.fake_provider import MANAGER, FakeProvider
from tests.support.provider_releases import service, whole

PORT = 31234


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.publish("v1.2.0", [*whole("made-up", "v1.2.0"), open_to_all("second")])
    return core


def open_to_all(name: str) -> Object:
    """A Service with a node port, which only one Service can have."""
    made = service(name)
    made["spec"] |= {"type": "NodePort", "ports": [{"port": 443, "nodePort": PORT}]}
    return made


@pytest.fixture
def taken(core: FakeProvider) -> Iterator[Key]:
    """Creates a Service of another owner with the same node port."""
    client, theirs = core.providers.client, open_to_all("theirs")
    theirs["metadata"]["namespace"] = core.providers.namespace(core.namespace)
    key = key_of(client.create(SERVICE, theirs))
    yield key
    if client.find(SERVICE, key):
        client.delete(SERVICE, key)


def test_rejected_upgrade_is_reported_and_continued(core: FakeProvider, taken: Key) -> None:
    providers = core.providers
    core.install("v1.1.0")
    core.apply("v1.2.0")
    core.reconcile()
    status, reason, message = core.condition_of("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert "from v1.1.0 to v1.2.0: " in message
    assert "Service made-up-system/second-webhook" in message
    assert str(PORT) in message
    assert core.condition_of() == ("False", "InstallFailed", message)
    assert core.condition_of("Ready") == ("False", "ComponentsUpgradeError", message)
    assert core.installed == "v1.1.0"
    # Objects that could be written have the new version; no old object is deleted or missing in the inventory.
    assert core.value_of("made-up-settings") == core.value_of("made-up-of-v1.2.0") == "v1.2.0"
    assert core.value_of("made-up-of-v1.1.0") == "v1.1.0"
    listed = providers.listed(*core.key)
    refused = listed.pop("Service made-up-system/second-webhook", "")
    assert refused == ""
    assert listed == providers.brought()

    # The next attempt writes only the objects that are missing.
    before = settled(core)
    core.reconcile()
    assert core.condition_of("ProviderUpgraded") == ("False", "ComponentsUpgradeError", message)
    assert settled(core) == before

    providers.client.delete(SERVICE, taken)
    provider = core.until_ready()
    assert core.condition_of("ProviderUpgraded") == ("True", "ProviderUpgraded", "Upgraded to v1.2.0")
    assert core.installed == "v1.2.0"
    second = providers.client.get(SERVICE, Key(core.namespace, "second-webhook"))
    assert dig(second, "spec.ports")[0]["nodePort"] == PORT
    assert core.value_of("made-up-of-v1.1.0") == ""
    assert {**settled(core), "made-up-of-v1.1.0": before["made-up-of-v1.1.0"]} == before
    assert providers.listed(*core.key) == providers.brought()
    assert {entry["status"] for entry in dig(provider, "status.resources")} == {"synced"}


def test_rollback_of_a_partial_upgrade_removes_its_objects(core: FakeProvider, taken: Key) -> None:
    providers = core.providers
    core.install("v1.1.0")
    core.apply("v1.2.0")
    core.reconcile()
    provider = core.install("v1.1.0")
    assert {entry["type"] for entry in dig(provider, "status.conditions") if entry["status"] != "True"} == set()
    assert "ProviderUpgraded" not in {entry["type"] for entry in dig(provider, "status.conditions")}
    assert core.value_of("made-up-settings") == core.value_of("made-up-of-v1.1.0") == "v1.1.0"
    assert core.value_of("made-up-of-v1.2.0") == ""
    assert providers.listed(*core.key) == providers.brought()


def test_provider_is_deleted_after_a_partial_upgrade(core: FakeProvider, taken: Key) -> None:
    core.install("v1.1.0")
    core.apply("v1.2.0")
    core.reconcile()
    core.delete()
    assert core.gone
    assert core.providers.brought() == {}
    assert core.providers.client.find(SERVICE, taken), "somebody else's"


def settled(core: FakeProvider) -> dict[str, str]:
    """Returns the resourceVersions of objects that only an installation writes."""
    found = core.providers.client.list(CONFIG_MAP, core.namespace, selector=core.selector)
    versions = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in found}
    manager = core.providers.client.get(DEPLOYMENT, MANAGER)
    return versions | {"generation of the Deployment": str(dig(manager, "metadata.generation"))}
