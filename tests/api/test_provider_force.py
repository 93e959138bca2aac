"""Deleting a provider whose kinds have objects: by force they go first, while what lets go of them still runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.provider_delete import decide
from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.made_up import MANAGER, SPACE, MadeUp
from tests.support.provider_releases import WEBHOOKS, config_map, crd, whole, widget
from tests.support.provider_world import Providers
from tests.support.until import until

WIDGET = widget("made-up")
FORCE = {"capi-functions.dev/force-delete": "true"}


def installed(core: MadeUp, objects: list[Object], annotations: dict[str, str] | None = None) -> None:
    core.publish("v1.1.0", objects)
    core.install("v1.1.0", annotations)


def with_widget(providers: Providers, **metadata: Any) -> None:
    body: Object = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "mine", **metadata}}
    providers.without_webhooks("cluster-api")
    providers.client.create(WIDGET, {**body, "metadata": {**body["metadata"], "namespace": SPACE}})


def gone(core: MadeUp) -> bool:
    core.look()
    return core.gone


def test_controllers_stay_until_their_objects_are_gone(core: MadeUp, providers: Providers) -> None:
    installed(core, whole("made-up", "v1.1.0"), FORCE)
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    core.delete()
    _, reason, message = core.told("Deleting")
    assert reason == "CustomResourcesGoing"
    assert "1 Widget" in message
    assert providers.client.find(DEPLOYMENT, MANAGER) is not None
    assert dig(providers.client.get(WIDGET, Key(SPACE, "mine")), "metadata.deletionTimestamp")
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})  # as its controller does
    until(lambda: gone(core), "the provider is gone")
    assert providers.brought() == {}


def test_webhooks_are_not_in_the_way_for_ever(
    core: MadeUp, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a controller that does not let go."""
    installed(core, whole("made-up", "v1.1.0"), FORCE)
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    monkeypatch.setattr(decide, "CONTROLLER_TIMEOUT", timedelta(seconds=-1))
    providers.client.delete(CORE.resource, core.at)
    for _ in range(2):
        core.look()
    assert providers.client.find(DEPLOYMENT, MANAGER) is None
    assert list(providers.client.list(WEBHOOKS)) == []
    assert providers.client.find(CRD, Key("", f"widgets.{WIDGET.group}")) is not None
    assert core.told()[1] == "OldComponentsDeletionError"
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})
    until(lambda: gone(core), "the provider is gone")


def test_what_it_brought_itself_is_no_reason_to_stay(core: MadeUp, providers: Providers) -> None:
    own = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "own"}}
    installed(core, [crd("made-up"), own, config_map("one", "1")])
    with_widget(providers)
    core.delete()
    assert "1 objects of the provider's kinds exist: 1 Widget" in core.told("Deleting")[2]
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    until(lambda: gone(core), "the provider is gone")


def test_paused_means_left_alone(core: MadeUp, providers: Providers) -> None:
    installed(core, [config_map("one", "1")])
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    providers.client.patch(CORE.resource, core.at, paused)
    core.delete()
    assert len(providers.brought()) > 0
    providers.client.patch(CORE.resource, core.at, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
    assert gone(core)
