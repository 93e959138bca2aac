"""Deletion of providers: what it waits for, which objects it deletes by the inventory, and forced deletion.

Forced deletion deletes the CRDs and their objects first, while the controllers still run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from functions.provider_delete import decide
from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, COMPONENT_LABEL, CORE, FINALIZER, INFRASTRUCTURE, PROVIDER_LABEL
from shared.api.resources import CLUSTER_ROLE, CONFIG_MAP, DEPLOYMENT, NAMESPACE
from shared.kube import ApiError, Key, Object, Resource, dig
from shared.kube.crds import CRD
from shared.providers import phases
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import WEBHOOKS, cluster_role, config_map, crd, webhook, whole, widget
from tests.support.provider_world import Providers
from tests.support.until import until

ELSEWHERE = "elsewhere"
GADGET = Resource("gadgets.example.com", "v1", "Gadget", "gadgets")
WIDGET = widget("made-up")
FORCE = {"capi-functions.dev/force-delete": "true"}


def deletion_condition(core: FakeProvider) -> tuple[str, str, str]:
    return core.condition_of("Deleting")


# -- what the deletion waits for -----------------------------------------------------------------------------------


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
        status, reason, message = deletion_condition(core)
        assert (status, reason) == ("True", "CustomResourcesExist")
        left = [resource.kind for resource, _ in objects[number:]]
        counts = ", ".join(f"{left.count(kind)} {kind}" for kind in ("Gadget", "Widget") if kind in left)
        assert message.startswith(f"objects of the provider's kinds exist: {counts}; ")
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
        status, reason, message = deletion_condition(core)
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


# -- which objects are deleted -------------------------------------------------------------------------------------


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
            # Everything else is deleted except the CRDs, which come last; the inventory lists what is left.
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


# -- a provider that is being deleted ------------------------------------------------------------------------------


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
        answer = providers.send(phases.completion_event(step, going, resync=resync))
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


# -- forced deletion -----------------------------------------------------------------------------------------------


def installed(core: FakeProvider, objects: list[Object], annotations: dict[str, str] | None = None) -> None:
    core.publish("v1.1.0", objects)
    core.install("v1.1.0", annotations)


def with_widget(providers: Providers, **metadata: Any) -> None:
    body: Object = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "mine", **metadata}}
    providers.without_webhooks("cluster-api")
    providers.client.create(WIDGET, {**body, "metadata": {**body["metadata"], "namespace": SPACE}})


def gone(core: FakeProvider) -> bool:
    core.reconcile()
    return core.gone


def test_controllers_stay_until_their_objects_are_deleted(core: FakeProvider, providers: Providers) -> None:
    installed(core, whole("made-up", "v1.1.0"), FORCE)
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    core.delete()
    _, reason, message = core.condition_of("Deleting")
    assert reason == "CustomResourcesGoing"
    assert "1 Widget" in message
    assert providers.client.find(DEPLOYMENT, MANAGER) is not None
    assert dig(providers.client.get(WIDGET, Key(SPACE, "mine")), "metadata.deletionTimestamp")
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})  # as its controller does
    until(lambda: gone(core), "the provider is deleted")
    assert providers.brought() == {}


def test_webhooks_are_deleted_after_the_timeout(
    core: FakeProvider, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller does not remove its finalizer."""
    installed(core, whole("made-up", "v1.1.0"), FORCE)
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    monkeypatch.setattr(decide, "CONTROLLER_TIMEOUT", timedelta(seconds=-1))
    providers.client.delete(CORE.resource, core.at)
    for _ in range(2):
        core.reconcile()
    assert providers.client.find(DEPLOYMENT, MANAGER) is None
    assert list(providers.client.list(WEBHOOKS)) == []
    assert providers.client.find(CRD, Key("", f"widgets.{WIDGET.group}")) is not None
    assert core.condition_of()[1] == "OldComponentsDeletionError"
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})
    until(lambda: gone(core), "the provider is deleted")


def test_own_custom_resources_do_not_delay_the_deletion(core: FakeProvider, providers: Providers) -> None:
    own = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "own"}}
    installed(core, [crd("made-up"), own, config_map("one", "1")])
    with_widget(providers)
    core.delete()
    assert "objects of the provider's kinds exist: 1 Widget" in core.condition_of("Deleting")[2]
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    until(lambda: gone(core), "the provider is deleted")


def test_paused_provider_is_not_deleted(core: FakeProvider, providers: Providers) -> None:
    installed(core, [config_map("one", "1")])
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    providers.client.patch(CORE.resource, core.at, paused)
    core.delete()
    assert len(providers.brought()) > 0
    providers.client.patch(CORE.resource, core.at, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
    assert gone(core)
