"""The life of charts and sets with each function under its own ServiceAccount and its generated rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from functions import catalog
from shared.api.conditions import READY, is_true
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    SECRET,
)
from shared.clients import Clients
from shared.download import web
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, Resource, dig
from shared.runtime import Answer
from tests.support import objects
from tests.support.accounts import as_function, may
from tests.support.broker import deliver_with_replies
from tests.support.chart_repository import ChartRepository
from tests.support.event_receiver import EventReceiver
from tests.support.helm_releases import MAP, HelmWorld, packed
from tests.support.registry import certificate
from tests.support.until import until

FUNCTIONS = {
    "helm_chart_proxy": HELM_CHART_PROXY,
    "helm_release_proxy": HELM_RELEASE_PROXY,
    "chart_assets": None,
    "cluster_resource_set": CLUSTER_RESOURCE_SET,
    "cluster_resource_set_binding": CLUSTER_RESOURCE_SET_BINDING,
    "cluster_wake": CLUSTER,
}
"""The kind that each function gets."""
LABELS = {"charts": "yes"}


class Accounts:
    """The functions, each with its own client."""

    def __init__(self, admin: Client, kubeconfig: Path, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace
        self.clients = {name: as_function(admin, kubeconfig, name) for name in FUNCTIONS}
        self.messages: list[str] = []

    def deliver(self, function: str, event: Event) -> Answer:
        answer = catalog.handler(function)(self.clients[function], event)
        assert "forbidden" not in answer.message, f"{function}: {answer.message}"
        self.messages.append(f"{function}: {answer.message}")
        return answer

    def turn(self) -> None:
        """Delivers what a resync delivers, and the replies."""
        for function, kind in FUNCTIONS.items():
            for obj in list(self.admin.list(kind, self.namespace)) if kind else ():
                event = change_event(obj, "update", source="/test", resync=True)
                list(deliver_with_replies(event, [function], self.deliver))

    def until(self, reached: object, what: str) -> None:
        assert callable(reached)
        until(reached, what, between=self.turn, pause=0, details=lambda: self.messages[-6:])

    def close(self) -> None:
        for clients in self.clients.values():
            clients.management.close()


@pytest.fixture
def accounts(helm_world: HelmWorld, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Accounts]:
    """Yields the functions; the events of `cluster_wake` go to a receiver."""
    made = Accounts(helm_world.client, kubeconfig, helm_world.namespace)
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        yield made
    made.close()


@pytest.fixture
def repository(helm_world: HelmWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    certificate(helm_world.folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(helm_world.folder / "ca.crt"))
    web._context.cache_clear()
    content = ChartRepository()
    for version in ("1.0.0", "2.0.0"):
        content.add("web", version, packed(version, {"a.yaml": MAP.format("a")}))
    with content.serve(helm_world.folder) as site:
        yield f"{site.url}/repo"
    web._context.cache_clear()


def create(world: HelmWorld, resource: Resource, name: str, **spec: object) -> None:
    world.client.create(resource, objects.manifest(resource, name, world.namespace, spec=spec))


def test_generated_rights_suffice_for_the_life_of_a_chart(
    helm_world: HelmWorld, accounts: Accounts, repository: str
) -> None:
    world = helm_world
    values = objects.manifest(CONFIG_MAP, "values", world.namespace, data={"values.yaml": "x: given"})
    world.client.create(CONFIG_MAP, values)
    key = Key(world.namespace, "web")
    create(
        world,
        HELM_CHART_PROXY,
        key.name,
        clusterSelector={"matchLabels": LABELS},
        chartName="web",
        repoURL=repository,
        version="1.0.0",
        releaseName="web",
        namespace=world.releases,
        valuesFrom=[{"kind": "ConfigMap", "name": "values"}],
    )

    def has(version: str) -> bool:
        found: list[Object] = list(world.client.list(HELM_RELEASE_PROXY, world.namespace))
        return [(dig(one, "status.chartVersion"), is_true(dig(one, "status.conditions"), READY)) for one in found] == [
            (version, True)
        ]

    world.client.patch(CLUSTER, world.cluster_key, {"metadata": {"labels": LABELS}})
    accounts.until(lambda: has("1.0.0"), "the chart is installed")
    installed = world.client.get(CONFIG_MAP, Key(world.releases, "a"))
    assert installed["data"] == {"x": "given"}
    world.client.patch(HELM_CHART_PROXY, key, {"spec": {"version": "2.0.0"}})
    accounts.until(lambda: has("2.0.0"), "the chart is upgraded")
    world.client.delete(HELM_CHART_PROXY, key)
    accounts.until(lambda: world.client.find(HELM_CHART_PROXY, key) is None, "the chart is uninstalled")
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None


def test_generated_rights_suffice_for_the_life_of_a_set(helm_world: HelmWorld, accounts: Accounts) -> None:
    world = helm_world
    text = yaml.safe_dump(objects.manifest(CONFIG_MAP, "applied", world.namespace, data={"k": "1"}))
    world.client.create(CONFIG_MAP, objects.manifest(CONFIG_MAP, "source", world.namespace, data={"a.yaml": text}))
    typed = {**objects.secret("source", world.namespace, value=text), "type": "addons.cluster.x-k8s.io/resource-set"}
    world.client.create(SECRET, typed)
    sources = [{"kind": kind, "name": "source"} for kind in ("ConfigMap", "Secret")]
    create(world, CLUSTER_RESOURCE_SET, "set", clusterSelector={"matchLabels": LABELS}, resources=sources)
    world.client.patch(CLUSTER, world.cluster_key, {"metadata": {"labels": LABELS}})

    def binding() -> Object | None:
        return world.client.find(CLUSTER_RESOURCE_SET_BINDING, world.cluster_key)

    accounts.until(lambda: binding() is not None, "the set is applied")
    accounts.until(lambda: world.client.find(CONFIG_MAP, Key(world.namespace, "applied")), "its object exists")
    world.client.delete(CLUSTER_RESOURCE_SET, Key(world.namespace, "set"))
    accounts.until(lambda: binding() is None, "the binding is deleted")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_charts_and_sets_may_not_change_clusters_or_list_secrets(
    function: str, management: Client, kubeconfig: Path
) -> None:
    client = as_function(management, kubeconfig, function).management
    refused = (
        ("list", "", "secrets"),
        ("watch", "", "secrets"),
        ("create", "", "secrets"),
        ("delete", "", "secrets"),
        ("delete", "", "configmaps"),
        ("patch", CLUSTER.group, CLUSTER.plural),
        ("delete", CLUSTER.group, CLUSTER.plural),
        ("create", "", "serviceaccounts/token"),
        ("create", "rbac.authorization.k8s.io", "rolebindings"),
    )
    assert not [request for request in refused if may(client, *request)]
    client.close()


def test_rights_to_secrets_are_those_of_their_readers(management: Client, kubeconfig: Path) -> None:
    clients: dict[str, Clients] = {name: as_function(management, kubeconfig, name) for name in FUNCTIONS}
    readers = {name for name, each in clients.items() if may(each.management, "get", "", "secrets")}
    writers = {name for name, each in clients.items() if may(each.management, "patch", "", "secrets")}
    assert readers == {"helm_release_proxy", "chart_assets", "cluster_resource_set"}
    assert writers == {"cluster_resource_set"}
    for each in clients.values():
        each.management.close()
