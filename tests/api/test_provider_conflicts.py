"""Fields of a provider's objects that others hold: taken, refused, or left to them, as its annotation wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, dig
from tests.support.made_up import MANAGER, MadeUp
from tests.support.provider_installers import by_clusterctl, installed
from tests.support.provider_releases import deployment, whole
from tests.support.provider_world import Providers
from tests.support.providers import CURRENT, PREVIOUS, reduced

CONFLICTS = "capi-functions.dev/conflicts"


@pytest.fixture
def core(core: MadeUp) -> MadeUp:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    return core


def scaled_by_another(core: MadeUp) -> None:
    """Held by server-side apply, as by whoever keeps it in a repository of their own."""
    theirs = deployment("made-up", "")
    theirs["metadata"]["namespace"] = core.namespace
    theirs["spec"] = {"replicas": 2}
    core.providers.client.apply(DEPLOYMENT, theirs, manager="autoscaler")


def manager(core: MadeUp) -> Object:
    return core.providers.client.get(DEPLOYMENT, MANAGER)


def image(core: MadeUp) -> str:
    return str(dig(manager(core), "spec.template.spec.containers")[0]["image"]).rpartition(":")[2]


def test_left_to_them(core: MadeUp) -> None:
    core.install("v1.1.0", {CONFLICTS: "yield"})
    scaled_by_another(core)
    core.install("v1.2.0", {CONFLICTS: "yield"})
    assert (dig(manager(core), "spec.replicas"), image(core)) == (2, "v1.2.0")
    core.install("v1.2.0", {CONFLICTS: "force"}, deployment={"nodeSelector": {"kubernetes.io/os": "linux"}})
    assert dig(manager(core), "spec.replicas") == 1


def test_refused(core: MadeUp) -> None:
    core.install("v1.1.0", {CONFLICTS: "fail"})
    scaled_by_another(core)
    core.want("v1.2.0", {CONFLICTS: "fail"})
    core.look()
    status, reason, message = core.told()
    assert (status, reason) == ("False", "InstallFailed")
    assert "Deployment made-up-system/made-up-controller-manager" in message
    assert "autoscaler" in message
    assert "spec.replicas" in message
    assert core.told("ProviderUpgraded")[:2] == ("False", "ComponentsUpgradeError")
    assert (dig(manager(core), "spec.replicas"), image(core)) == (2, "v1.1.0")
    # The way out that operations.md gives: to say whose it is.
    core.install("v1.2.0", {CONFLICTS: "force"})
    assert (dig(manager(core), "spec.replicas"), image(core)) == (1, "v1.2.0")


def test_taken_unless_it_says_otherwise(core: MadeUp) -> None:
    core.install("v1.1.0")
    scaled_by_another(core)
    core.install("v1.2.0")
    assert dig(manager(core), "spec.replicas") == 1


@pytest.mark.parametrize("policy", ["yield", "fail"])
def test_nothing_is_taken_over(providers: Providers, policy: str) -> None:
    """What clusterctl had set before stays where it is."""
    installed(providers, PREVIOUS, by_clusterctl)
    providers.releases += [reduced(version) for version in (PREVIOUS, CURRENT)]
    core = MadeUp(providers, Path(), namespace="capi-system")
    source = {"url": providers.url("core-components.yaml")}
    core.want(PREVIOUS, {CONFLICTS: policy}, fetchConfig=source)
    core.look()
    assert of_clusterctl(core) == (True, True)
    core.install(CURRENT, {CONFLICTS: "force"}, fetchConfig=source)
    assert of_clusterctl(core) == (False, False)


def of_clusterctl(core: MadeUp) -> tuple[bool, bool]:
    """Whether it holds fields of the Deployment, and whether there is one that no version asks for."""
    found = core.providers.client.get(DEPLOYMENT, Key("capi-system", "capi-controller-manager"))
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    return "clusterctl" in managers, "of-before" in dig(found, "metadata.labels")
