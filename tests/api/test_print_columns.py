"""The columns of `kubectl get` for the project's kinds."""

from __future__ import annotations

from shared.api.resources import CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from tests.support.objects import printed_rows
from tests.support.releases import STACK, write_release
from tests.support.stacks import Stacks
from tests.support.world import World


def test_columns_of_cluster_stack_and_release(stacks: Stacks) -> None:
    tag = stacks.publish("v1")
    stacks.stack(autoSubscribe=True)
    stacks.settle()
    [stack] = printed_rows(stacks.client, CLUSTER_STACK, stacks.namespace)
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
    [release] = printed_rows(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert (release["Name"], release["K8s Version"], release["Ready"]) == (tag, "v1.36.3", True)


def test_columns_of_unusable_release(stacks: Stacks) -> None:
    stacks.publish("v1", class_templates={"class.yaml": '{{ fail "broken" }}'})
    stacks.stack()
    stacks.settle()
    [release] = printed_rows(stacks.client, CLUSTER_STACK_RELEASE, stacks.namespace)
    assert release["Ready"] in (False, None)
    assert release["Reason"]
    assert "broken" in release["Message"]
    [stack] = printed_rows(stacks.client, CLUSTER_STACK, stacks.namespace)
    assert not stack["Usable"]
    assert stack["Reason"]
    assert stack["Message"]


def test_columns_of_addon(world: World) -> None:
    world.secret()
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.settle()
    [addon] = printed_rows(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Cluster"], addon["Ready"], addon["Reason"]) == ("demo", True, None)
    world.cluster(write_release(world.releases, "v2", templates={"broken.yaml": '{{ fail "broken" }}'}))
    world.settle()
    [addon] = printed_rows(world.client, CLUSTER_ADDON, world.namespace)
    assert (addon["Ready"], addon["Reason"]) == (False, "TemplateNewClusterStackFailed")
    assert "broken" in addon["Message"]
