"""The columns of `kubectl get` for the project's kinds."""

from __future__ import annotations

from typing import Any

from shared.api.resources import CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.kube import Client, Resource
from tests.support.releases import STACK, write_release
from tests.support.stacks import Stacks
from tests.support.world import World

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_AGE = "Age"


def shown(client: Client, resource: Resource, namespace: str) -> list[dict[str, Any]]:
    """Returns each row by column name, without the age."""
    table = client.request("GET", resource.path(namespace), accept=_TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    rows = [dict(zip(columns, row["cells"], strict=True)) for row in table["rows"]]
    assert all(row.pop(_AGE) for row in rows)
    return rows


def test_columns_of_cluster_stack_and_release(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack(autoSubscribe=True)
    stacks.settle()
    [stack] = shown(stacks.client, CLUSTER_STACK, stacks.namespace)
    assert {name: stack[name] for name in stack if name not in ("Reason", "Message")} == {
        "Name": "stack",
        "Provider": "test",
        "ClusterStack": "stack",
        "K8s": "1.36",
        "Channel": "stable",
        "Autosubscribe": "true",
        "Usable": "v1",
        "Latest": f"{STACK}-v1 | v1.36.3",
    }
    [release] = shown(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert (release["Name"], release["K8s Version"], release["Ready"]) == (tag, "v1.36.3", True)


def test_columns_of_unusable_release(stacks: Stacks) -> None:
    stacks.publish("v1", class_templates={"class.yaml": '{{ fail "broken" }}'})
    stacks.stack()
    stacks.settle()
    [release] = shown(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert release["Ready"] in (False, None)
    assert release["Reason"]
    assert "broken" in release["Message"]
    [stack] = shown(stacks.client, CLUSTER_STACK, stacks.namespace)
    assert not stack["Usable"]
    assert stack["Reason"]
    assert stack["Message"]


def test_columns_of_addon(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    [addon] = shown(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Cluster"], addon["Ready"], addon["Reason"]) == ("demo", True, None)
    world.cluster(write_release(world.releases, "v2", templates={"broken.yaml": '{{ fail "broken" }}'}))
    world.settle()
    [addon] = shown(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Ready"], addon["Reason"]) == (False, "TemplateNewClusterStackFailed")
    assert "broken" in addon["Message"]
