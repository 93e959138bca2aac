"""Fields of a provider's objects that other field managers own: taken, rejected or left, by the annotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, dig
from tests.support.fake_provider import MANAGER, FakeProvider
from tests.support.provider_installers import by_clusterctl, installed
from tests.support.provider_releases import deployment, whole
from tests.support.provider_world import Providers
from tests.support.real_providers import CURRENT, PREVIOUS, reduced

CONFLICTS = "capi-functions.dev/conflicts"


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    return core


def scaled_by_another(core: FakeProvider) -> None:
    """Sets the replicas by server-side apply, as a GitOps tool would."""
    theirs = deployment("made-up", "")
    theirs["metadata"]["namespace"] = core.namespace
    theirs["spec"] = {"replicas": 2}
    core.providers.client.apply(DEPLOYMENT, theirs, manager="autoscaler")


def manager(core: FakeProvider) -> Object:
    return core.providers.client.get(DEPLOYMENT, MANAGER)


def image(core: FakeProvider) -> str:
    return str(dig(manager(core), "spec.template.spec.containers")[0]["image"]).rpartition(":")[2]


def test_yield_leaves_fields_to_other_managers(core: FakeProvider) -> None:
    core.install("v1.1.0", {CONFLICTS: "yield"})
    scaled_by_another(core)
    core.install("v1.2.0", {CONFLICTS: "yield"})
    assert (dig(manager(core), "spec.replicas"), image(core)) == (2, "v1.2.0")
    core.install("v1.2.0", {CONFLICTS: "force"}, deployment={"nodeSelector": {"kubernetes.io/os": "linux"}})
    assert dig(manager(core), "spec.replicas") == 1


def test_fail_rejects_the_installation(core: FakeProvider) -> None:
    core.install("v1.1.0", {CONFLICTS: "fail"})
    scaled_by_another(core)
    core.apply("v1.2.0", {CONFLICTS: "fail"})
    core.reconcile()
    status, reason, message = core.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "Deployment made-up-system/made-up-controller-manager" in message
    assert "autoscaler" in message
    assert "spec.replicas" in message
    assert core.condition_of("ProviderUpgraded")[:2] == ("False", "ComponentsUpgradeError")
    assert (dig(manager(core), "spec.replicas"), image(core)) == (2, "v1.1.0")
    # The solution in operations.md: the annotation chooses.
    core.install("v1.2.0", {CONFLICTS: "force"})
    assert (dig(manager(core), "spec.replicas"), image(core)) == (1, "v1.2.0")


def test_fields_are_taken_by_default(core: FakeProvider) -> None:
    core.install("v1.1.0")
    scaled_by_another(core)
    core.install("v1.2.0")
    assert dig(manager(core), "spec.replicas") == 1


@pytest.mark.parametrize("policy", ["yield", "fail"])
def test_clusterctls_fields_stay_without_force(providers: Providers, policy: str) -> None:
    """Fields that clusterctl has set keep their values."""
    installed(providers, PREVIOUS, by_clusterctl)
    providers.releases += [reduced(version) for version in (PREVIOUS, CURRENT)]
    core = FakeProvider(providers, Path(), namespace="capi-system")
    source = {"url": providers.url("core-components.yaml")}
    core.apply(PREVIOUS, {CONFLICTS: policy}, fetchConfig=source)
    core.reconcile()
    assert of_clusterctl(core) == (True, True)
    core.install(CURRENT, {CONFLICTS: "force"}, fetchConfig=source)
    assert of_clusterctl(core) == (False, False)


def of_clusterctl(core: FakeProvider) -> tuple[bool, bool]:
    """Returns whether clusterctl owns fields of the Deployment, and whether one exists that no version has."""
    found = core.providers.client.get(DEPLOYMENT, Key("capi-system", "capi-controller-manager"))
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    return "clusterctl" in managers, "of-before" in dig(found, "metadata.labels")
