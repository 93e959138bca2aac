"""Forced deletion: the CRDs and their objects are deleted first, while the controllers still run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.provider_delete import decide
from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import WEBHOOKS, config_map, crd, whole, widget
from tests.support.provider_world import Providers
from tests.support.until import until

WIDGET = widget("made-up")
FORCE = {"capi-functions.dev/force-delete": "true"}


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
    until(lambda: gone(core), "the provider is gone")
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
    until(lambda: gone(core), "the provider is gone")


def test_own_custom_resources_do_not_delay_the_deletion(core: FakeProvider, providers: Providers) -> None:
    own = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "own"}}
    installed(core, [crd("made-up"), own, config_map("one", "1")])
    with_widget(providers)
    core.delete()
    assert "1 objects of the provider's kinds exist: 1 Widget" in core.condition_of("Deleting")[2]
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    until(lambda: gone(core), "the provider is gone")


def test_paused_provider_is_not_deleted(core: FakeProvider, providers: Providers) -> None:
    installed(core, [config_map("one", "1")])
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    providers.client.patch(CORE.resource, core.at, paused)
    core.delete()
    assert len(providers.brought()) > 0
    providers.client.patch(CORE.resource, core.at, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
    assert gone(core)
