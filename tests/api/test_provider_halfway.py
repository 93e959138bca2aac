"""An upgrade that the API server refuses in the middle: what is said of it, what stays, and how it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.kube import Key, Object, dig, key_of
from tests.support.made_up import MANAGER, MadeUp
from tests.support.provider_releases import SERVICE, service, whole

PORT = 31234


@pytest.fixture
def core(core: MadeUp) -> MadeUp:
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.publish("v1.2.0", [*whole("made-up", "v1.2.0"), open_to_all("second")])
    return core


def open_to_all(name: str) -> Object:
    """There can be one of this port."""
    made = service(name)
    made["spec"] |= {"type": "NodePort", "ports": [{"port": 443, "nodePort": PORT}]}
    return made


@pytest.fixture
def taken(core: MadeUp) -> Iterator[Key]:
    """A Service of somebody's that has the port already."""
    client, theirs = core.providers.client, open_to_all("theirs")
    theirs["metadata"]["namespace"] = core.providers.namespace(core.namespace)
    key = key_of(client.create(SERVICE, theirs))
    yield key
    if client.find(SERVICE, key):
        client.delete(SERVICE, key)


def test_an_upgrade_that_is_refused_half_way(core: MadeUp, taken: Key) -> None:
    providers = core.providers
    core.install("v1.1.0")
    core.want("v1.2.0")
    core.look()
    status, reason, message = core.told("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert "from v1.1.0 to v1.2.0: " in message
    assert "Service made-up-system/second-webhook" in message
    assert str(PORT) in message
    assert core.told() == ("False", "InstallFailed", message)
    assert core.told("Ready") == ("False", "ComponentsUpgradeError", message)
    assert core.installed == "v1.1.0"
    # What could be written is of the new version; nothing of the old one is gone, or forgotten.
    assert core.value_of("made-up-settings") == core.value_of("made-up-of-v1.2.0") == "v1.2.0"
    assert core.value_of("made-up-of-v1.1.0") == "v1.1.0"
    listed = providers.listed(*core.key)
    refused = listed.pop("Service made-up-system/second-webhook", "")
    assert refused == ""
    assert listed == providers.brought()

    # Nothing has changed: it is tried again, and so is only what is missing.
    before = settled(core)
    core.look()
    assert core.told("ProviderUpgraded") == ("False", "ComponentsUpgradeError", message)
    assert settled(core) == before

    providers.client.delete(SERVICE, taken)
    provider = core.until_ready()
    assert core.told("ProviderUpgraded") == ("True", "ProviderUpgraded", "Upgraded to v1.2.0")
    assert core.installed == "v1.2.0"
    second = providers.client.get(SERVICE, Key(core.namespace, "second-webhook"))
    assert dig(second, "spec.ports")[0]["nodePort"] == PORT
    assert core.value_of("made-up-of-v1.1.0") == ""
    assert {**settled(core), "made-up-of-v1.1.0": before["made-up-of-v1.1.0"]} == before
    assert providers.listed(*core.key) == providers.brought()
    assert {entry["status"] for entry in dig(provider, "status.resources")} == {"synced"}


def test_back_from_half_way(core: MadeUp, taken: Key) -> None:
    """The version of before is wanted again: what the upgrade has brought goes."""
    providers = core.providers
    core.install("v1.1.0")
    core.want("v1.2.0")
    core.look()
    provider = core.install("v1.1.0")
    assert {entry["type"] for entry in dig(provider, "status.conditions") if entry["status"] != "True"} == set()
    assert "ProviderUpgraded" not in {entry["type"] for entry in dig(provider, "status.conditions")}
    assert core.value_of("made-up-settings") == core.value_of("made-up-of-v1.1.0") == "v1.1.0"
    assert core.value_of("made-up-of-v1.2.0") == ""
    assert providers.listed(*core.key) == providers.brought()


def test_deleted_half_way(core: MadeUp, taken: Key) -> None:
    core.install("v1.1.0")
    core.want("v1.2.0")
    core.look()
    core.delete()
    assert core.gone
    assert core.providers.brought() == {}
    assert core.providers.client.find(SERVICE, taken), "somebody else's"


def settled(core: MadeUp) -> dict[str, str]:
    """The resourceVersion of what only an installation writes."""
    found = core.providers.client.list(CONFIG_MAP, core.namespace, selector=core.selector)
    versions = {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in found}
    manager = core.providers.client.get(DEPLOYMENT, MANAGER)
    return versions | {"generation of the Deployment": str(dig(manager, "metadata.generation"))}
