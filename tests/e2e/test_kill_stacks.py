"""The functions are killed at writes of a ClusterStack's life: the end is always the same, and nothing is left over.

Its releases are fetched, get an object of the provider, and become classes; each release replaces the one before. A
class is repaired, and the ClusterStack is deleted. The test acts as the provider's controller.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.api.conditions import is_true
from shared.api.resources import CLUSTER_STACK, CLUSTER_STACK_RELEASE, NAMESPACE
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource, dig, key_of
from shared.releases.store import ReleaseStore
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.broker import deliver_with_replies
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.releases import write_release
from tests.support.stacks import CLASS, TEMPLATE, TOY, TOY_TEMPLATE, classes
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""), (True, "another release"), (False, "deletion"))
FUNCTIONS = {CLUSTER_STACK: "cluster_stack", CLUSTER_STACK_RELEASE: "cluster_stack_release"}
REFERENCE = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The life of one ClusterStack in a namespace of its own, where a user has objects of the same kinds."""

    def __init__(self, functions: KillableFunctions, client: Client, store: ReleaseStore) -> None:
        self.functions, self.client, self.store = functions, client, store
        name = f"k{uuid.uuid4().hex[:8]}"
        self.namespace, self.stack_name = f"kill-{name}", f"test-{name}-1-36"
        self.key = Key(self.namespace, "stack")
        self.spec = {"provider": "test", "name": name, "kubernetesVersion": "1.36", "providerRef": REFERENCE}
        self.version = 0
        self.resync = False

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        change = {"another release": self.publish, "deletion": self.delete}
        self.functions.while_down = change.get(point.meanwhile if point else "", lambda: None)
        self.functions.kill_at(point)
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.namespace))
        theirs = [self.create(CLASS, "theirs", spec={"infrastructure": {}}), self.create(TOY, "theirs")]
        theirs += [self.create(TEMPLATE, "theirs"), self.create(TOY_TEMPLATE, "toys", spec={"template": {"spec": {}}})]
        self.publish()
        self.create(CLUSTER_STACK, "stack", spec=self.spec)
        for change_next in (self.publish, self.drift):
            self.until(lambda: self.deleted() or self.provided(), "the newest release alone")
            if not self.deleted():
                self.check()
                change_next()
        self.until(lambda: self.deleted() or self.provided(), "the newest release, repaired")
        if not self.deleted():
            self.check()
            self.delete()
        self.until(lambda: not self.names(CLUSTER_STACK, CLUSTER_STACK_RELEASE), "the end")
        kinds = (CLASS, TOY, TEMPLATE, TOY_TEMPLATE)
        assert [obj for kind in kinds for obj in self.client.list(kind, self.namespace)] == theirs
        return self.functions.end()

    # -- what users do ---------------------------------------------------------------------------------------------

    def create(self, resource: Resource, name: str, **content: Any) -> Object:
        return self.client.create(resource, objects.manifest(resource, name, self.namespace, **content), manager="user")

    def publish(self) -> None:
        self.version += 1
        version = f"v{self.version}"
        write_release(self.functions.releases, version, class_templates=classes(version), stack=self.stack_name)

    def drift(self) -> None:
        """Deletes and changes objects of the class, and requests a resync."""
        self.resync = True
        self.client.delete(CLASS, Key(self.namespace, self.tag))
        self.client.patch(TEMPLATE, Key(self.namespace, f"{self.tag}-worker"), {"spec": {"size": "large"}})

    def delete(self) -> None:
        self.client.delete(CLUSTER_STACK, self.key)

    # -- what events and the provider's controller do -----------------------------------------------------------------

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.describe)

    def turn(self) -> None:
        for resource, function in FUNCTIONS.items():
            for obj in list(self.client.list(resource, self.namespace)):
                whole = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
                event = change_event(whole, "update", source="/test", resync=self.resync)
                list(deliver_with_replies(event, [function], self.functions.deliver))
        for toy in list(self.client.list(TOY, self.namespace)):
            if not dig(toy, "status.ready") and toy["metadata"]["name"] != "theirs":
                self.client.patch(TOY, key_of(toy), {"status": {"ready": True}}, subresource="status")

    # -- what is there then ------------------------------------------------------------------------------------------

    @property
    def tag(self) -> str:
        return f"{self.stack_name}-v{self.version}"

    def names(self, *kinds: Resource) -> list[str]:
        found = [obj["metadata"]["name"] for kind in kinds for obj in self.client.list(kind, self.namespace)]
        return sorted(set(found) - {"theirs"})

    def deleted(self) -> bool:
        stack = self.client.find(CLUSTER_STACK, self.key)
        return stack is None or dig(stack, "metadata.deletionTimestamp") is not None

    def provided(self) -> bool:
        status = dig(self.client.find(CLUSTER_STACK, self.key), "status", {})
        usable = status.get("usableVersions") == f"v{self.version}" and is_true(status.get("conditions"), "Ready")
        there = self.names(CLUSTER_STACK_RELEASE) == self.names(CLASS) == [self.tag]
        return usable and there and self.worker() == {"size": "small"} and self.is_recorded()

    def worker(self) -> object:
        return dig(self.client.find(TEMPLATE, Key(self.namespace, f"{self.tag}-worker")), "spec")

    def is_recorded(self) -> bool:
        """Returns whether the inventory of the newest release lists just its objects, as they are now."""
        release = self.client.get(CLUSTER_STACK_RELEASE, Key(self.namespace, self.tag))
        inventory = {(one["name"], one["uid"], one["status"]) for one in dig(release, "status.resources", [])}
        keys = {CLASS: Key(self.namespace, self.tag), TEMPLATE: Key(self.namespace, f"{self.tag}-worker")}
        live = {key.name: self.client.get(kind, key)["metadata"]["uid"] for kind, key in keys.items()}
        return inventory == {(name, uid, "synced") for name, uid in live.items()}

    def check(self) -> None:
        """Asserts that objects and stored files are those of the newest release."""
        assert self.names(TEMPLATE) == [f"{self.tag}-worker"]
        assert self.names(TOY) == [self.tag]
        release = self.client.get(CLUSTER_STACK_RELEASE, Key(self.namespace, self.tag))
        [owner] = dig(self.client.get(TOY, key_of(release)), "metadata.ownerReferences")
        assert owner["uid"] == release["metadata"]["uid"]
        assert self.store.load(self.tag) is not None
        assert self.store.last_failure(self.tag) is None

    def describe(self) -> object:
        kinds = (CLUSTER_STACK, CLUSTER_STACK_RELEASE)
        conditions = [dig(obj, "status.conditions") for kind in kinds for obj in self.client.list(kind, self.namespace)]
        return self.names(*kinds, CLASS, TEMPLATE, TOY), self.worker(), conditions, self.functions.writes[-5:]


@pytest.mark.timeout(3600)
def test_cluster_stack_ends_the_same_when_functions_are_killed_at_a_write(
    class_kinds: None,
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management, ReleaseStore(object_store)).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
