"""Contracts of Cluster API: which versions are compatible, by metadata.yaml and by the status of providers."""

from __future__ import annotations

import json

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import INFRASTRUCTURE
from shared.kube import dig
from shared.providers import phases
from tests.support.fake_provider import FakeProvider

OLD, NOW = "v1beta1", "v1beta2"


@pytest.fixture
def infrastructure(core: FakeProvider) -> FakeProvider:
    return core.other(INFRASTRUCTURE, "made-up", "infrastructure-system")


def beside(core: FakeProvider, infrastructure: FakeProvider, contract: str) -> None:
    """Installs both providers with one contract."""
    for each in (core, infrastructure):
        each.publish("v1.1.0", contract=contract)
        assert dig(each.install("v1.1.0"), "status.contract") == contract


def test_new_contract_requires_the_core_upgrade_first(core: FakeProvider, infrastructure: FakeProvider) -> None:
    beside(core, infrastructure, OLD)
    for each in (core, infrastructure):
        each.publish("v1.2.0", contract=NOW)
    infrastructure.apply("v1.2.0")
    infrastructure.reconcile()
    status, reason, message = infrastructure.condition_of("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert f"version v1.2.0 is of contract {NOW}, CoreProvider of {OLD}; upgrade the core provider first" in message
    assert infrastructure.condition_of("Ready")[:2] == ("False", "ComponentsUpgradeError")
    assert (infrastructure.installed, infrastructure.value) == ("v1.1.0", "v1.1.0")

    assert dig(core.install("v1.2.0"), "status.contract") == NOW  # which goes with the one before
    infrastructure.until_ready()
    assert infrastructure.condition_of("ProviderUpgraded")[0] == "True"
    assert (infrastructure.installed, infrastructure.value) == ("v1.2.0", "v1.2.0")
    assert dig(infrastructure.object, "status.contract") == NOW


def test_core_upgrade_waits_for_providers_of_the_old_contract(core: FakeProvider, infrastructure: FakeProvider) -> None:
    beside(core, infrastructure, NOW)
    core.publish("v1.2.0", contract=OLD)
    core.apply("v1.2.0")
    core.reconcile()
    status, reason, message = core.condition_of("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert f"InfrastructureProvider infrastructure-system/made-up is of contract {NOW}" in message
    assert (core.installed, core.value) == ("v1.1.0", "v1.1.0")
    # The obstacle is removed.
    infrastructure.delete()
    core.until_ready()
    assert (core.installed, core.value) == ("v1.2.0", "v1.2.0")


@pytest.mark.parametrize(
    ("version", "contract", "words"),
    [
        pytest.param("v1.1.0", "v1alpha4", "of contract v1alpha4, supported are v1beta2 and v1beta1", id="too old"),
        pytest.param("v1.1.0", "v1beta3", "of contract v1beta3, supported are v1beta2 and v1beta1", id="to come"),
        pytest.param("v1.77.0", NOW, "does not match any release series of its metadata.yaml", id="none"),
    ],
)
def test_incompatible_versions_are_rejected(core: FakeProvider, version: str, contract: str, words: str) -> None:
    core.publish(version, contract=contract)
    core.apply(version)
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "CAPIVersionIncompatibility")
    assert words in message
    assert core.providers.brought() == {}
    core.publish("v1.2.0")
    core.install("v1.2.0")


def test_provider_removed_from_the_configuration_between_phases_is_reported(
    core: FakeProvider, infrastructure: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration changes after the preflight."""
    mounted = core.folder / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(mounted))
    entry = {"name": infrastructure.name, "type": infrastructure.kind.kind, "url": infrastructure.url}
    mounted.write_text(json.dumps({"providers": [entry]}))
    for each in (core, infrastructure):
        each.publish("v1.1.0")
    core.install("v1.1.0")
    infrastructure.apply("v1.1.0", fetchConfig=None)
    infrastructure.providers.send_to(["provider_preflight"], *infrastructure.key)
    assert infrastructure.condition_of("PreflightCheckPassed")[0] == "True"
    mounted.write_text("providers: []")
    event = phases.completion_event(phases.CHECKED, infrastructure.object, resync=False)
    infrastructure.providers.send(event, ["provider_fetch"])
    status, reason, message = infrastructure.condition_of()
    assert (status, reason) == ("False", "UnknownProvider")
    assert "InfrastructureProvider made-up is not in the catalog: set spec.fetchConfig" in message
    # A repeated preflight reports it first.
    infrastructure.reconcile()
    assert infrastructure.condition_of("PreflightCheckPassed")[:2] == ("False", "FetchConfigValidationError")
    mounted.write_text(json.dumps({"providers": [entry]}))
    provider = infrastructure.until_ready()
    assert get_condition(dig(provider, "status.conditions"), "ProviderUpgraded") is None
