"""Deletion of providers: what it waits for, and which objects it deletes, by the inventory rather than by labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, COMPONENT_LABEL, FINALIZER, INFRASTRUCTURE, PROVIDER_LABEL
from shared.api.resources import CONFIG_MAP
from shared.kube import ApiError, Key, Object, Resource, dig
from shared.kube.crds import CRD
from shared.providers import phases
from tests.support.fake_provider import SPACE, FakeProvider
from tests.support.provider_releases import (
    CLUSTER_ROLE,
    WEBHOOKS,
    cluster_role,
    config_map,
    crd,
    webhook,
    whole,
    widget,
)
from tests.support.provider_world import NAMESPACE, Providers
from tests.support.until import until

ELSEWHERE = "elsewhere"
GADGET = Resource("gadgets.example.com", "v1", "Gadget", "gadgets")
WIDGET = widget("made-up")


def told(core: FakeProvider) -> tuple[str, str, str]:
    return core.condition_of("Deleting")


# -- what speaks against it ----------------------------------------------------------------------------------------


def test_deletion_waits_for_objects_of_all_kinds(core: FakeProvider) -> None:
    providers = core.providers
    core.publish("v1.1.0", [gadgets(), crd("without-any"), *whole("made-up", "v1.1.0")])
    core.install("v1.1.0")
    objects = [(WIDGET, Key(SPACE, "one")), (WIDGET, Key(SPACE, "two")), (WIDGET, Key(ELSEWHERE, "one"))]
    objects += [(GADGET, Key(SPACE, "one")), (GADGET, Key(ELSEWHERE, "one"))]
    for resource, key in objects:
        make(providers, resource, key)
    brought = providers.brought()
    providers.client.delete(core.kind.resource, core.at)
    for number in range(len(objects)):
        assert core.reconcile().retry_after == 20.0
        status, reason, message = told(core)
        assert (status, reason) == ("True", "CustomResourcesExist")
        left = [resource.kind for resource, _ in objects[number:]]
        counts = ", ".join(f"{left.count(kind)} {kind}" for kind in ("Gadget", "Widget") if kind in left)
        assert message.startswith(f"{len(left)} objects of the provider's kinds exist: {counts}; ")
        assert providers.brought() == brought
        providers.client.delete(*objects[number])
    core.reconcile()
    assert core.gone
    assert providers.brought() == {}


def gadgets() -> Object:
    """Creates a second kind."""
    made = crd("gadgets")
    made["metadata"]["name"] = "gadgets.gadgets.example.com"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"}
    return made


def make(providers: Providers, resource: Resource, key: Key) -> None:
    metadata = {"name": key.name, "namespace": providers.namespace(key.namespace)}
    providers.client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})


def test_core_provider_is_deleted_last(core: FakeProvider) -> None:
    """The order of the others does not matter."""
    providers = core.providers
    others = [core.other(kind, "other", f"{kind.type_name}-system") for kind in (INFRASTRUCTURE, BOOTSTRAP)]
    for provider in (core, *others):
        provider.publish("v1.1.0")
        provider.install("v1.1.0")
    brought = providers.brought()
    core.delete()
    for number, other in enumerate(others):
        status, reason, message = told(core)
        assert (status, reason) == ("True", "OtherProvidersExist")
        for each in others:
            assert (f"{each.kind.kind} {each.at}" in message) is (each in others[number:])
        assert core.value == "v1.1.0"
        other.delete()
        assert other.gone
        core.reconcile()
    assert core.gone
    assert len(brought) >= 3
    assert providers.brought() == {}


# -- what goes, and what stays -------------------------------------------------------------------------------------


@contextmanager
def refused(providers: Providers, key: Key) -> Iterator[None]:
    """Makes the API server reject the deletion of this ConfigMap."""
    registration = "admissionregistration.k8s.io"
    policy = Resource(registration, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
    binding = Resource(
        registration, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    specs = {
        policy: {
            "matchConstraints": {"resourceRules": [{**rule, "resourceNames": [key.name]}]},
            "validations": [{"expression": "false", "message": "it is archived first"}],
        },
        binding: {"policyName": "archived", "validationActions": ["Deny"]},
    }
    try:
        for resource, spec in specs.items():
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "archived"}}
            providers.client.create(resource, {**body, "spec": spec})
        until(lambda: not may_go(providers, key), "the policy holds")
        yield
    finally:
        for resource in specs:
            providers.client.delete(resource, Key("", "archived"))
    until(lambda: may_go(providers, key), "the policy does not hold any more")


def may_go(providers: Providers, key: Key) -> bool:
    try:
        providers.client.request("DELETE", CONFIG_MAP.path(key.namespace, key.name), query={"dryRun": "All"})
    except ApiError as error:
        if "it is archived first" in str(error):
            return False
        raise
    return True


def test_objects_that_cannot_be_deleted_are_reported_and_keep_the_provider(core: FakeProvider) -> None:
    providers = core.providers
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    key = Key(SPACE, "made-up-settings")
    with refused(providers, key):
        providers.client.delete(core.kind.resource, core.at)
        for _ in range(2):
            assert core.reconcile().retry_after == 10.0
            status, reason, message = core.condition_of()
            assert (status, reason) == ("False", "OldComponentsDeletionError")
            assert f"ConfigMap {key}" in message
            assert "it is archived first" in message
            assert dig(core.object, "metadata.finalizers") == [FINALIZER]
            # All else is gone, except for its kinds, which go last; what is left is on record.
            assert set(providers.brought()) == set(providers.listed(*core.key))
            assert set(providers.brought()) - {f"{CRD.kind} widgets.made-up.example.com"} == {f"ConfigMap {key}"}
    core.reconcile()
    assert core.gone
    assert providers.brought() == {}


@pytest.fixture
def foreign(core: FakeProvider) -> Iterator[dict[tuple[Resource, Key], str]]:
    """Creates objects of other owners, with and without the provider's labels, and returns their uids."""
    providers, client = core.providers, core.providers.client
    labels = {COMPONENT_LABEL: "", PROVIDER_LABEL: core.label}
    found: dict[tuple[Resource, Key], str] = {}
    for resource, namespace, obj in (
        *((CONFIG_MAP, SPACE, config_map(name, "theirs")) for name in ("labelled", "plain")),
        *((CONFIG_MAP, ELSEWHERE, config_map(name, "theirs")) for name in ("labelled", "made-up-settings")),
        *((CLUSTER_ROLE, "", cluster_role(name, "theirs")) for name in ("labelled", "plain", f"{SPACE}-labelled")),
        (WEBHOOKS, "", webhook("labelled")),
    ):
        metadata: Object = {"name": obj["metadata"]["name"], "labels": {} if "plain" in str(obj) else labels}
        if namespace:
            metadata["namespace"] = providers.namespace(namespace)
        made = client.create(resource, {**obj, "metadata": metadata})
        found[resource, Key(namespace, metadata["name"])] = made["metadata"]["uid"]
    yield found
    for resource, key in found:
        client.delete(resource, key)


def test_objects_of_others_are_not_deleted(core: FakeProvider, foreign: dict[tuple[Resource, Key], str]) -> None:
    """Including those recreated in place of the provider's objects."""
    providers, client = core.providers, core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.install("v1.1.0")
    place = (CONFIG_MAP, Key(SPACE, "made-up-settings"))
    client.delete(*place)
    metadata = {"name": place[1].name, "namespace": SPACE, "labels": {PROVIDER_LABEL: core.label}}
    foreign[place] = client.create(CONFIG_MAP, {**config_map("", "theirs"), "metadata": metadata})["metadata"]["uid"]

    ours = set(providers.listed(*core.key))
    core.delete()
    assert core.gone
    assert {place: client.get(*place)["metadata"]["uid"] for place in foreign} == foreign
    assert len(ours) > 10
    assert ours & set(providers.brought()) == {f"ConfigMap {place[1]}"}
    assert client.find(NAMESPACE, Key("", SPACE))


# -- what goes already ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [phases.CHECKED, phases.FETCHED, phases.INSTALLED])
def test_deleting_provider_gets_no_finalizer_and_no_objects(core: FakeProvider, step: str) -> None:
    """Another finalizer keeps the provider; ours cannot be added during deletion."""
    providers, client = core.providers, core.providers.client
    core.publish("v1.1.0", whole("made-up", "v1.1.0"))
    core.apply("v1.1.0")
    client.patch(core.kind.resource, core.at, {"metadata": {"finalizers": ["example.com/held"]}})
    providers.send_to(["provider_preflight", "provider_fetch"], *core.key)
    assert get_condition(dig(core.object, "status.conditions"), "ProviderInstalled") is None
    client.delete(core.kind.resource, core.at)
    going = as_if_checked(core)
    for resync in (False, True):
        answer = providers.send(phases.next_step(step, going, resync=resync))
        assert (answer.status, answer.retry_after) == (204, None)
        core.reconcile(resync=resync)
    assert core.object == going
    assert dig(going, "metadata.finalizers") == ["example.com/held"]
    assert providers.brought() == {}
    client.patch(core.kind.resource, core.at, {"metadata": {"finalizers": None}})
    assert core.gone


def as_if_checked(core: FakeProvider) -> Object:
    """Marks the present generation as checked, so that only the deletion prevents an installation."""
    going = core.object
    conditions = dig(going, "status.conditions")
    for condition in conditions:
        condition["observedGeneration"] = going["metadata"]["generation"]
    status = {"status": {"conditions": conditions}}
    return core.providers.client.patch(core.kind.resource, core.at, status, subresource="status")
