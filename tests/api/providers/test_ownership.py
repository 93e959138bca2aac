"""Owners of objects: a provider, another provider, a cluster stack, or nobody who is known."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.names import OWNED, OWNED_LABEL
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE, PROVIDER_LABEL
from shared.api.resources import CLUSTER_ROLE, EVENT
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from shared.runtime.function import Function
from tests.support import objects
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import cluster_role, config_map, crd, widget
from tests.support.provider_world import Providers

WIDGET = widget("common")
KIND = Key("", "widgets.common.example.com")
ROLE = Key("", "common-role")
PRUNE = "annotate the {} with capi-functions.dev/prune-crds: true"


@pytest.fixture
def core(core: FakeProvider) -> FakeProvider:
    """Installs the core provider, which the others need."""
    core.publish("v1.1.0")
    core.install("v1.1.0")
    return core


@pytest.fixture
def bootstrap(core: FakeProvider) -> FakeProvider:
    """A bootstrap provider whose v1.1.0 has the common objects, and whose v1.2.0 does not."""
    return sharing(core.other(BOOTSTRAP, "same", "b-system"), "v1.1.0", "v1.2.0")


@pytest.fixture
def infrastructure(core: FakeProvider) -> FakeProvider:
    """An infrastructure provider whose v1.2.0 has the common objects, and whose v1.1.0 does not."""
    return sharing(core.other(INFRASTRUCTURE, "same", "i-system"), "v1.2.0", "v1.1.0")


def sharing(provider: FakeProvider, one: str, other: str) -> FakeProvider:
    own = config_map("own", provider.label)
    provider.publish(one, [crd("common"), cluster_role(ROLE.name, provider.label), own])
    provider.publish(other, [own])
    return provider


def common(providers: Providers) -> list[Object | None]:
    return [providers.client.find(CRD, KIND), providers.client.find(CLUSTER_ROLE, ROLE)]


def owners(providers: Providers) -> list[str]:
    """Returns the providers in the labels of the common objects; empty for a missing object."""
    return [dig(obj, ("metadata", "labels", PROVIDER_LABEL), "") for obj in common(providers)]


def somebodys(providers: Providers, namespace: str, **labels: str) -> Key:
    metadata = {"labels": labels}
    providers.client.create(WIDGET, objects.manifest(WIDGET, "mine", providers.namespace(namespace), metadata=metadata))
    return Key(namespace, "mine")


def listed(provider: FakeProvider) -> dict[str, str]:
    return {entry["name"]: entry["status"] for entry in dig(provider.object, "status.resources", [])}


# -- two providers -------------------------------------------------------------------------------------------------


def test_object_of_another_provider_is_rejected(bootstrap: FakeProvider, infrastructure: FakeProvider) -> None:
    providers = bootstrap.providers
    bootstrap.install("v1.1.0")
    before = [obj["metadata"]["resourceVersion"] for obj in common(providers) if obj]
    infrastructure.apply("v1.2.0")
    infrastructure.reconcile()
    status, reason, message = infrastructure.condition_of()
    assert (status, reason) == ("False", "InstallFailed")
    assert "ClusterRole common-role: " in message or "CustomResourceDefinition widgets.common.example.com: " in message
    assert "it belongs to BootstrapProvider b-system/same" in message
    assert "delete that owner" in message
    assert [obj["metadata"]["resourceVersion"] for obj in common(providers) if obj] == before
    bootstrap.reconcile()
    assert bootstrap.condition_of("Ready")[0] == "True"
    # Deleting the rejected provider deletes no object.
    infrastructure.delete()
    assert providers.client.find(infrastructure.kind.resource, infrastructure.at) is None
    assert owners(providers) == ["bootstrap-same"] * 2
    bootstrap.delete()
    assert common(providers) == [None, None]


def test_deleting_the_owner_resolves_the_rejection(bootstrap: FakeProvider, infrastructure: FakeProvider) -> None:
    bootstrap.install("v1.1.0")
    infrastructure.apply("v1.2.0")
    infrastructure.reconcile()
    bootstrap.delete()
    infrastructure.install("v1.2.0")
    assert owners(bootstrap.providers) == ["infrastructure-same"] * 2


@pytest.mark.parametrize("in_use", [False, True], ids=["unused", "in use"])
@pytest.mark.parametrize("receiver_first", [False, True], ids=["giver first", "receiver first"])
def test_object_moves_with_an_upgrade_of_both_providers(
    bootstrap: FakeProvider, infrastructure: FakeProvider, *, receiver_first: bool, in_use: bool
) -> None:
    """A CRD moves with its custom resources."""
    providers = bootstrap.providers
    bootstrap.install("v1.1.0")
    infrastructure.install("v1.1.0")
    if in_use:
        somebodys(providers, "b-system")
    if receiver_first:
        infrastructure.apply("v1.2.0")
        infrastructure.reconcile()
        assert infrastructure.condition_of()[:2] == ("False", "InstallFailed")
    bootstrap.install("v1.2.0")
    infrastructure.install("v1.2.0")
    assert owners(providers) == ["infrastructure-same"] * 2
    bootstrap.reconcile(resync=True)
    assert set(listed(bootstrap)) == {"own", bootstrap.label}
    assert bootstrap.condition_of("Ready")[0] == "True"
    bootstrap.delete()
    assert owners(providers) == ["infrastructure-same"] * 2
    if in_use:
        assert providers.client.find(WIDGET, Key("b-system", "mine"))
        providers.client.delete(WIDGET, Key("b-system", "mine"))


def test_moved_object_is_not_taken_back_from_its_new_owner(
    bootstrap: FakeProvider, infrastructure: FakeProvider
) -> None:
    providers = bootstrap.providers
    bootstrap.install("v1.1.0")
    infrastructure.install("v1.1.0")
    somebodys(providers, "b-system")
    bootstrap.install("v1.2.0")
    assert listed(bootstrap)[KIND.name] == "kept"
    infrastructure.install("v1.2.0")
    sharing(bootstrap, "v1.3.0", "v1.4.0")
    bootstrap.apply("v1.3.0")
    bootstrap.reconcile()
    assert "it belongs to InfrastructureProvider i-system/same" in bootstrap.condition_of()[2]
    assert owners(providers) == ["infrastructure-same"] * 2
    providers.client.delete(WIDGET, Key("b-system", "mine"))


def test_relabelled_object_belongs_to_the_other_provider(bootstrap: FakeProvider, infrastructure: FakeProvider) -> None:
    """It is neither written nor deleted."""
    providers = bootstrap.providers
    bootstrap.install("v1.1.0")
    infrastructure.install("v1.1.0")
    patch = {"metadata": {"labels": {PROVIDER_LABEL: "infrastructure-same"}}}
    providers.client.patch(CLUSTER_ROLE, ROLE, patch)
    bootstrap.delete()
    assert owners(providers) == ["", "infrastructure-same"]
    providers.client.delete(CLUSTER_ROLE, ROLE)


# -- a provider and cluster stacks ---------------------------------------------------------------------------------


def test_crd_of_a_cluster_stack_is_not_taken(bootstrap: FakeProvider) -> None:
    providers = bootstrap.providers
    bootstrap.install("v1.1.0")
    template = somebodys(providers, "b-system", **{OWNED_LABEL: OWNED})
    bootstrap.install("v1.2.0")
    assert providers.client.find(WIDGET, template)
    assert listed(bootstrap)[KIND.name] == "kept"
    [entry] = [entry for entry in dig(bootstrap.object, "status.resources") if entry["name"] == KIND.name]
    assert "Widget b-system/mine" in entry["error"]
    assert PRUNE.format("BootstrapProvider") in entry["error"]
    providers.client.delete(WIDGET, template)


# -- objects of unknown owners -------------------------------------------------------------------------------------


def test_existing_objects_are_adopted_and_reported(core: FakeProvider) -> None:
    client = core.providers.client
    theirs = [
        {
            **objects.manifest(CLUSTER_ROLE, "ops-team"),
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        },
        crd("common"),
    ]
    client.apply(CLUSTER_ROLE, theirs[0], manager="kubectl-by-hand")
    client.apply(CRD, theirs[1], manager="a-chart")
    core.publish("v1.2.0", [cluster_role("ops-team", "x"), crd("common"), config_map("own", "1")])
    core.install("v1.2.0")
    [event] = [event for event in client.list(EVENT, core.namespace) if event["reason"] == "ObjectsTakenOver"]
    assert event["type"] == "Warning"
    assert event["involvedObject"]["uid"] == core.object["metadata"]["uid"]
    assert "ClusterRole ops-team (kubectl-by-hand)" in event["message"]
    assert f"CustomResourceDefinition {KIND.name} (a-chart)" in event["message"]
    assert "own" not in event["message"]
    core.reconcile(resync=True)
    assert len([event for event in client.list(EVENT, core.namespace) if event["reason"] == "ObjectsTakenOver"]) == 1


def test_conflict_message_names_the_providers_kind(core: FakeProvider) -> None:
    core.publish("v1.2.0", [cluster_role("ops-team", "x")])
    client = core.providers.client
    client.apply(CLUSTER_ROLE, cluster_role("ops-team", "theirs"), manager="kubectl-by-hand")
    core.apply("v1.2.0", {"capi-functions.dev/conflicts": "fail"})
    core.reconcile()
    message = core.condition_of()[2]
    assert "annotate the CoreProvider with capi-functions.dev/conflicts: force or yield" in message
    client.delete(CLUSTER_ROLE, Key("", "ops-team"))


# -- recreated objects ---------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def test_recreated_object_is_deleted_with_the_provider(core: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ended before it recorded the new uid."""
    client = core.providers.client
    core.publish("v1.2.0", [cluster_role(ROLE.name, "x"), config_map("own", "1")])
    core.install("v1.2.0")
    client.delete(CLUSTER_ROLE, ROLE)
    conclude = Function._conclude

    def dying(self: Function[Any], *arguments: object) -> object:
        if self.name == "provider_install":
            raise Killed
        return conclude(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Function, "_conclude", dying)
        with pytest.raises(Killed):
            core.reconcile(resync=True)
    made_anew = client.get(CLUSTER_ROLE, ROLE)
    assert made_anew["metadata"]["uid"] not in core.providers.listed(*core.key).values()
    core.delete()
    assert client.find(CORE.resource, core.at) is None
    assert client.find(CLUSTER_ROLE, ROLE) is None


def test_object_recreated_by_others_is_not_deleted(core: FakeProvider) -> None:
    """Even if it has all labels of the provider."""
    client = core.providers.client
    core.publish("v1.2.0", [cluster_role(ROLE.name, "x"), config_map("own", "1")])
    core.install("v1.2.0")
    metadata = {"name": ROLE.name, "labels": client.get(CLUSTER_ROLE, ROLE)["metadata"]["labels"]}
    client.delete(CLUSTER_ROLE, ROLE)
    client.create(CLUSTER_ROLE, {**cluster_role(ROLE.name, "theirs"), "metadata": metadata})
    core.delete()
    assert client.find(CORE.resource, core.at) is None
    assert client.find(CLUSTER_ROLE, ROLE)
    client.delete(CLUSTER_ROLE, ROLE)
