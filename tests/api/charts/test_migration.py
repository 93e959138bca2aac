"""The commands of the page about migrating from Cluster API Addon Provider Helm, as written and in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions import catalog
from shared.api.resources import CONFIG_MAP, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.event import change_event
from shared.kube import ApiError, Key, dig
from shared.runtime import Answer
from tests.support.documents import ROOT, Shell, blocks
from tests.support.helm_releases import MAP, HelmWorld, packed
from tests.support.other_managers import WEBHOOKS, Manager, running

PAGE = ROOT / "docs" / "migrating-from-helm-addon-provider.md"
MANAGER = Key("caaph-system", "caaph-controller-manager")


@pytest.fixture
def manager(helm_world: HelmWorld) -> Iterator[Manager]:
    """CAAPH's Deployment and webhooks."""
    called = [(resource, kind) for resource in (HELM_CHART_PROXY, HELM_RELEASE_PROXY) for kind in WEBHOOKS]
    labels = {"cluster.x-k8s.io/provider": "helm"}
    with running(Manager(helm_world.client, MANAGER, "caaph", labels, called)) as manager:
        yield manager


@pytest.fixture
def world(helm_world: HelmWorld) -> HelmWorld:
    """A release that another installer has made."""
    templates = {"a.yaml": MAP.format("a")}
    (helm_world.folder / "web.tgz").write_bytes(packed("1.0.0", templates))
    helm_world.helm("install", "web", str(helm_world.folder / "web.tgz"), "--create-namespace")
    helm_world.chart("1.0.0", templates)
    helm_world.proxy()
    return helm_world


def call(world: HelmWorld) -> Answer:
    """Calls the function in a new process, which remembers nothing."""
    event = change_event(world.read(), "update", source="/test", resync=True)
    return catalog.handler("helm_release_proxy")(Clients(world.client), event)


def test_commands_of_the_page_hand_over_and_back(
    world: HelmWorld, manager: Manager, shell: Shell, kubeconfig: Path
) -> None:
    find, look = blocks(PAGE, "Before")
    stop, check, replace = blocks(PAGE, "Take over")
    [back] = blocks(PAGE, "The way back")
    shell.run(f"export KUBECONFIG={kubeconfig}")
    manager.controllers_scale()
    assert "caaph-validating-webhook-configuration" in shell.run(find)
    assert "web-demo" in shell.run(look)
    assert "reconciles this object" in call(world).message
    before = world.client.get(CONFIG_MAP, Key(world.releases, "a"))
    with pytest.raises(ApiError, match="caaph-webhook-service"):
        world.proxy(values="x: 1")

    shell.run(stop)
    manager.controllers_scale()
    assert call(world).retry_after is None, world.read()
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a")) == before
    assert world.history() == [(1, "deployed")]
    assert str(dig(world.read(), "status.recordDigest")) in shell.run(check)
    assert shell.run(replace).count("serverside-applied") == 2

    shell.run(back)
    manager.controllers_scale()
    assert "reconciles this object" in call(world).message
    with pytest.raises(ApiError, match="caaph-webhook-service"):
        world.proxy(values="x: 1")
