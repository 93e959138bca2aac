"""The commands of the page about migrating from Cluster API Addon Provider Helm, as written and in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions import catalog
from shared.api.resources import CONFIG_MAP, DEPLOYMENT, HELM_RELEASE_PROXY, NAMESPACE
from shared.clients import Clients
from shared.event import change_event
from shared.kube import ApiError, Key, Object, Resource, dig
from shared.runtime import Answer
from tests.support import objects
from tests.support.documents import ROOT, Shell, blocks
from tests.support.helm_releases import MAP, HelmWorld, packed

PAGE = ROOT / "docs" / "migrating-from-helm-addon-provider.md"
MANAGER = Key("caaph-system", "caaph-controller-manager")
_GROUP = "admissionregistration.k8s.io"
WEBHOOKS = {
    kind: Resource(_GROUP, "v1", f"{kind.title()}WebhookConfiguration", f"{kind}webhookconfigurations", False)
    for kind in ("mutating", "validating")
}


def webhook(kind: str, plural: str) -> Object:
    """Returns a webhook like CAAPH's, whose service does not answer."""
    return {
        "name": f"{kind}.{plural}.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": "caaph-webhook-service", "namespace": MANAGER.namespace}},
        "rules": [
            {
                "apiGroups": [HELM_RELEASE_PROXY.group],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
            }
        ],
    }


@pytest.fixture
def world(helm_world: HelmWorld) -> Iterator[HelmWorld]:
    """A release that another installer has made, and CAAPH's Deployment and webhooks."""
    client, world = helm_world.client, helm_world
    templates = {"a.yaml": MAP.format("a")}
    (world.folder / "web.tgz").write_bytes(packed("1.0.0", templates))
    world.helm("install", "web", str(world.folder / "web.tgz"), "--create-namespace")
    world.chart("1.0.0", templates)
    world.proxy()
    labels = {"cluster.x-k8s.io/provider": "helm"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "example.com/caaph"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    client.apply(NAMESPACE, objects.manifest(NAMESPACE, MANAGER.namespace), manager="user")
    metadata = {"labels": labels}
    client.create(DEPLOYMENT, objects.manifest(DEPLOYMENT, *reversed(MANAGER), metadata=metadata, spec=spec))
    for kind, resource in WEBHOOKS.items():
        hooks = [webhook(kind, plural) for plural in ("helmchartproxies", "helmreleaseproxies")]
        name = f"caaph-{kind}-webhook-configuration"
        client.create(resource, objects.manifest(resource, name, metadata={"labels": labels}, webhooks=hooks))
    yield world
    for kind, resource in WEBHOOKS.items():
        client.delete(resource, Key("", f"caaph-{kind}-webhook-configuration"))
    client.delete(DEPLOYMENT, MANAGER)


def controllers_scale(world: HelmWorld) -> None:
    """Reports the replicas of the Deployment, as Kubernetes' controllers do."""
    wanted = dig(world.client.get(DEPLOYMENT, MANAGER), "spec.replicas")
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), wanted)
    world.client.patch(DEPLOYMENT, MANAGER, {"status": counts}, subresource="status")


def call(world: HelmWorld) -> Answer:
    """Calls the function in a new process, which remembers nothing."""
    event = change_event(world.read(), "update", source="/test", resync=True)
    return catalog.handler("helm_release_proxy")(Clients(world.client), event)


def test_commands_of_the_page_hand_over_and_back(world: HelmWorld, shell: Shell, kubeconfig: Path) -> None:
    [look] = blocks(PAGE, "Before")
    stop, check = blocks(PAGE, "Take over")
    [back] = blocks(PAGE, "The way back")
    shell.run(f"export KUBECONFIG={kubeconfig}")
    controllers_scale(world)
    assert "web-demo" in shell.run(look)
    assert "left to" in call(world).message
    before = world.client.get(CONFIG_MAP, Key(world.releases, "a"))
    with pytest.raises(ApiError, match="caaph-webhook-service"):
        world.proxy(values="x: 1")

    shell.run(stop)
    controllers_scale(world)
    assert call(world).retry_after is None, world.read()
    assert world.client.get(CONFIG_MAP, Key(world.releases, "a")) == before
    assert world.history() == [(1, "deployed")]
    assert str(dig(world.read(), "status.recordDigest")) in shell.run(check)

    shell.run(back)
    controllers_scale(world)
    assert "left to" in call(world).message
    with pytest.raises(ApiError, match="caaph-webhook-service"):
        world.proxy(values="x: 1")
