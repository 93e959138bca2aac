"""Deleting a provider whose kinds have objects: by force they go first, while what lets go of them still runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.provider_delete import decide
from shared.api.provider import CORE
from shared.api.resources import DEPLOYMENT
from shared.kube import Key, Object, dig
from shared.kube.crds import CRD
from tests.support.provider_releases import WEBHOOKS, config_map, crd, publish, whole, widget
from tests.support.provider_world import Providers
from tests.support.until import until

SPACE = "made-up-system"
CORE_KEY = (CORE, "cluster-api", SPACE)
PROVIDER = Key(SPACE, "cluster-api")
WIDGET = widget("made-up")
MANAGER = Key(SPACE, "made-up-controller-manager")


@pytest.fixture(autouse=True)
def releases(providers: Providers, tmp_path: Path) -> Path:
    providers.releases.append(tmp_path)
    return tmp_path


def installed(providers: Providers, releases: Path, objects: list[Object], annotations: dict[str, str]) -> None:
    publish(releases, "v1.1.0", objects)
    config = {"url": providers.url("core-components.yaml")}
    providers.apply(*CORE_KEY, annotations, version="v1.1.0", fetchConfig=config)
    providers.until_ready(*CORE_KEY)


def with_widget(providers: Providers, **metadata: Any) -> None:
    body: Object = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "mine", **metadata}}
    providers.without_webhooks("cluster-api")
    providers.client.create(WIDGET, {**body, "metadata": {**body["metadata"], "namespace": SPACE}})


def gone(providers: Providers) -> bool:
    providers.settle(*CORE_KEY)
    return providers.client.find(CORE.resource, PROVIDER) is None


def test_controllers_stay_until_their_objects_are_gone(
    providers: Providers, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(providers, releases, whole("made-up", "v1.1.0"), {"capi-functions.dev/force-delete": "true"})
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    providers.client.delete(CORE.resource, PROVIDER)
    providers.settle(*CORE_KEY)
    condition = providers.condition(providers.get(*CORE_KEY), "Deleting")
    assert condition["reason"] == "CustomResourcesGoing"
    assert "1 Widget" in condition["message"]
    assert providers.client.find(DEPLOYMENT, MANAGER) is not None
    assert dig(providers.client.get(WIDGET, Key(SPACE, "mine")), "metadata.deletionTimestamp")
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})  # as its controller does
    until(lambda: gone(providers), "the provider is gone")
    assert providers.brought() == {}


def test_webhooks_are_not_in_the_way_for_ever(
    providers: Providers, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a controller that does not let go."""
    installed(providers, releases, whole("made-up", "v1.1.0"), {"capi-functions.dev/force-delete": "true"})
    with_widget(providers, finalizers=["made-up.example.com/controller"])
    monkeypatch.setattr(decide, "PATIENCE", timedelta(seconds=-1))
    providers.client.delete(CORE.resource, PROVIDER)
    for _ in range(2):
        providers.settle(*CORE_KEY)
    assert providers.client.find(DEPLOYMENT, MANAGER) is None
    assert list(providers.client.list(WEBHOOKS)) == []
    assert providers.client.find(CRD, Key("", f"widgets.{WIDGET.group}")) is not None
    condition = providers.condition(providers.get(*CORE_KEY), "ProviderInstalled")
    assert condition["reason"] == "OldComponentsDeletionError"
    providers.client.patch(WIDGET, Key(SPACE, "mine"), {"metadata": {"finalizers": None}})
    until(lambda: gone(providers), "the provider is gone")


def test_what_it_brought_itself_is_no_reason_to_stay(providers: Providers, releases: Path) -> None:
    own = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "own"}}
    installed(providers, releases, [crd("made-up"), own, config_map("one", "1")], {})
    with_widget(providers)
    providers.client.delete(CORE.resource, PROVIDER)
    providers.settle(*CORE_KEY)
    condition = providers.condition(providers.get(*CORE_KEY), "Deleting")
    assert "1 objects of its kinds exist: 1 Widget" in condition["message"]
    providers.client.delete(WIDGET, Key(SPACE, "mine"))
    until(lambda: gone(providers), "the provider is gone")


def test_paused_means_left_alone(providers: Providers, releases: Path) -> None:
    installed(providers, releases, [config_map("one", "1")], {})
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    providers.client.patch(CORE.resource, PROVIDER, paused)
    providers.client.delete(CORE.resource, PROVIDER)
    providers.settle(*CORE_KEY)
    assert len(providers.brought()) > 0
    providers.client.patch(CORE.resource, PROVIDER, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
    assert gone(providers)
