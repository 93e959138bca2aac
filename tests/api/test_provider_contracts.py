"""Contracts of Cluster API: which version may stand beside which, as fetched from metadata.yaml and kept in status."""

from __future__ import annotations

import json

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import INFRASTRUCTURE
from shared.kube import dig
from shared.providers import phases
from tests.support.made_up import MadeUp

OLD, NOW = "v1beta1", "v1beta2"


@pytest.fixture
def infrastructure(core: MadeUp) -> MadeUp:
    return core.other(INFRASTRUCTURE, "made-up", "infrastructure-system")


def beside(core: MadeUp, infrastructure: MadeUp, contract: str) -> None:
    """Both installed, of one contract."""
    for each in (core, infrastructure):
        each.publish("v1.1.0", contract=contract)
        assert dig(each.install("v1.1.0"), "status.contract") == contract


def test_core_goes_first(core: MadeUp, infrastructure: MadeUp) -> None:
    beside(core, infrastructure, OLD)
    for each in (core, infrastructure):
        each.publish("v1.2.0", contract=NOW)
    infrastructure.want("v1.2.0")
    infrastructure.look()
    status, reason, message = infrastructure.told("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert f"version v1.2.0 is of contract {NOW}, CoreProvider of {OLD}; upgrade the core provider first" in message
    assert infrastructure.told("Ready")[:2] == ("False", "ComponentsUpgradeError")
    assert (infrastructure.installed, infrastructure.value) == ("v1.1.0", "v1.1.0")

    assert dig(core.install("v1.2.0"), "status.contract") == NOW  # which goes with the one before
    infrastructure.until_ready()
    assert infrastructure.told("ProviderUpgraded")[0] == "True"
    assert (infrastructure.installed, infrastructure.value) == ("v1.2.0", "v1.2.0")
    assert dig(infrastructure.object, "status.contract") == NOW


def test_core_leaves_nobody_behind(core: MadeUp, infrastructure: MadeUp) -> None:
    beside(core, infrastructure, NOW)
    core.publish("v1.2.0", contract=OLD)
    core.want("v1.2.0")
    core.look()
    status, reason, message = core.told("ProviderUpgraded")
    assert (status, reason) == ("False", "ComponentsUpgradeError")
    assert f"InfrastructureProvider infrastructure-system/made-up is of contract {NOW}" in message
    assert (core.installed, core.value) == ("v1.1.0", "v1.1.0")
    # Nobody in its way any more.
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
def test_versions_that_cannot_be_used(core: MadeUp, version: str, contract: str, words: str) -> None:
    core.publish(version, contract=contract)
    core.want(version)
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "CAPIVersionIncompatibility")
    assert words in message
    assert core.providers.brought() == {}
    core.publish("v1.2.0")
    core.install("v1.2.0")


def test_who_is_in_the_catalog_no_more(core: MadeUp, infrastructure: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two phases: the configuration that is mounted has lost it."""
    mounted = core.folder / "clusterctl.yaml"
    monkeypatch.setenv("CLUSTERCTL_CONFIG", str(mounted))
    entry = {"name": infrastructure.name, "type": infrastructure.kind.kind, "url": infrastructure.url}
    mounted.write_text(json.dumps({"providers": [entry]}))
    for each in (core, infrastructure):
        each.publish("v1.1.0")
    core.install("v1.1.0")
    infrastructure.want("v1.1.0", fetchConfig=None)
    infrastructure.providers.send_to(["provider_preflight"], *infrastructure.key)
    assert infrastructure.told("PreflightCheckPassed")[0] == "True"
    mounted.write_text("providers: []")
    event = phases.next_step(phases.CHECKED, infrastructure.object, resync=False)
    infrastructure.providers.send(event, ["provider_fetch"])
    status, reason, message = infrastructure.told()
    assert (status, reason) == ("False", "UnknownProvider")
    assert "InfrastructureProvider made-up is not in the catalog: set spec.fetchConfig" in message
    # The checks say so first, where they are asked again.
    infrastructure.look()
    assert infrastructure.told("PreflightCheckPassed")[:2] == ("False", "FetchConfigValidationError")
    mounted.write_text(json.dumps({"providers": [entry]}))
    provider = infrastructure.until_ready()
    assert get_condition(dig(provider, "status.conditions"), "ProviderUpgraded") is None
