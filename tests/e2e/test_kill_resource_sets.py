"""The functions are killed at writes of the life of ClusterResourceSets: the end is always the same.

Two sets apply their sources to a Cluster, one once, the other whenever a source changes. Sources change, come and go,
the sets are deleted, and the Cluster is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from shared.api.conditions import get_condition
from shared.api.resource_set import SOURCE_TYPE, binding_entry, recorded_sources
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
)
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, dig
from shared.storage import ObjectStore
from shared.wake import wake_event
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""), (False, "other sources"), (False, "deletion of the set"), (True, "deletion"))
MOVING = "ConfigMap/added", "Secret/secret"
"""The set has one of these sources at a time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The life of the sets `once` and `always` and of one Cluster, in a namespace of its own."""

    def __init__(self, functions: KillableFunctions, client: Client) -> None:
        self.functions, self.client = functions, client
        self.namespace = f"kill-{uuid.uuid4().hex[:8]}"
        self.workload = f"{self.namespace}-workload"
        self.number = 0

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        change = {"other sources": self.change, "deletion of the set": self.delete_set, "deletion": self.delete}
        self.functions.while_down = change.get(point.meanwhile if point else "", lambda: None)
        self.functions.kill_at(point)
        for name in (self.namespace, self.workload):
            self.client.create(NAMESPACE, objects.manifest(NAMESPACE, name))
        self.create_cluster()
        self.write_sources()
        for name, strategy in (("once", "ApplyOnce"), ("always", "Reconcile")):
            resources = [_reference(source) for source in self.sources(name)]
            selector = {"matchLabels": {"cni": "x"}}
            spec = {"clusterSelector": selector, "strategy": strategy, "resources": resources}
            body = objects.manifest(CLUSTER_RESOURCE_SET, name, self.namespace, spec=spec)
            self.client.create(CLUSTER_RESOURCE_SET, body)
        for step in (self.change, self.change, self.delete_set, self.delete):
            self.until(self.settled, f"the state before the step {step.__name__}")
            self.check()
            step()
        self.until(self.settled, "the end")
        self.check()
        self.client.delete(CLUSTER_RESOURCE_SET, self.key("once"))
        self.until(lambda: not self.sets(), "the end of the sets")
        self.check()
        self.client.delete(NAMESPACE, Key("", self.workload))
        return self.functions.end()

    # -- what users do ---------------------------------------------------------------------------------------------

    def create_cluster(self) -> None:
        metadata = {"labels": {"cni": "x"}}
        self.client.create(CLUSTER, objects.manifest(CLUSTER, "demo", self.namespace, metadata=metadata, spec={}))
        status = {"status": {"initialization": {"controlPlaneInitialized": True}}}
        self.client.patch(CLUSTER, self.key("demo"), status, subresource="status")
        kubeconfig = objects.secret("demo-kubeconfig", self.namespace, value=self.functions.kubeconfig)
        self.client.create(SECRET, kubeconfig)

    def write_sources(self) -> None:
        for source in ("ConfigMap/first", "ConfigMap/shared", *MOVING):
            kind, name = source.split("/")
            text = yaml.safe_dump(objects.manifest(CONFIG_MAP, name, self.workload, data={"k": str(self.number)}))
            if kind == SECRET.kind:
                body = {**objects.secret(name, self.namespace, value=text), "type": SOURCE_TYPE}
                self.client.apply(SECRET, body, manager="user")
            else:
                body = objects.manifest(CONFIG_MAP, name, self.namespace, data={"value": text})
                self.client.apply(CONFIG_MAP, body, manager="user")

    def change(self) -> None:
        """Changes the content of all sources, and exchanges one of them."""
        self.number += 1
        self.write_sources()
        resources = [_reference(source) for source in self.sources("always")]
        if "always" in self.sets():
            self.client.patch(CLUSTER_RESOURCE_SET, self.key("always"), {"spec": {"resources": resources}})

    def delete_set(self) -> None:
        self.client.delete(CLUSTER_RESOURCE_SET, self.key("always"))

    def delete(self) -> None:
        self.client.delete(CLUSTER, self.key("demo"))

    # -- what events do --------------------------------------------------------------------------------------------

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.describe)

    def turn(self) -> None:
        """Delivers what follows a change of sources or Clusters, and a resync of bindings."""
        for obj in self.sets().values():
            self.deliver("cluster_resource_set", wake_event(obj, source="/test"))
        for obj in list(self.client.list(CLUSTER_RESOURCE_SET_BINDING, self.namespace)):
            event = change_event(obj, "update", source="/test", resync=True)
            self.deliver("cluster_resource_set_binding", event)

    def deliver(self, function: str, event: Event) -> None:
        answer = self.functions.deliver(function, event)
        assert answer.status != 500, answer.message

    # -- what is there then ----------------------------------------------------------------------------------------

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def sources(self, name: str) -> list[str]:
        """Returns the sources of the set."""
        return ["ConfigMap/first"] if name == "once" else ["ConfigMap/shared", MOVING[self.number % 2]]

    def sets(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self.client.list(CLUSTER_RESOURCE_SET, self.namespace)}

    def binding(self) -> Object | None:
        return self.client.find(CLUSTER_RESOURCE_SET_BINDING, self.key("demo"))

    def values(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["data"]["k"] for obj in self.client.list(CONFIG_MAP, self.workload)}

    def settled(self) -> bool:
        """Returns whether all statuses and the binding show the present state."""
        sets = self.sets()
        if any(dig(one, "metadata.deletionTimestamp") or not _is_applied(one) for one in sets.values()):
            return False
        if self.client.find(CLUSTER, self.key("demo")) is None:
            return self.binding() is None
        values = self.values()
        current = [values.get(source.split("/")[1]) == str(self.number) for source in self.sources("always")]
        return self.binding() is not None and (all(current) or "always" not in sets)

    def check(self) -> None:
        """Asserts that binding and owners of sources are those of the sets, and that no object was removed."""
        sets, binding = self.sets(), self.binding()
        for name in ("once", "always"):
            recorded = recorded_sources(binding_entry(binding, name))
            applied = [f"{ref.kind}/{ref.name}" for ref, record in recorded.items() if record["applied"]]
            assert sorted(applied) == (sorted(self.sources(name)) if name in sets and binding else [])
        assert binding is None or _owners(binding) == sorted(sets)
        for source in ("ConfigMap/first", "ConfigMap/shared", *MOVING):
            kind, name = source.split("/")
            obj = self.client.get(SECRET if kind == SECRET.kind else CONFIG_MAP, self.key(name))
            wanted = sorted(one for one in sets if source in self.sources(one))
            # A set owns no source before it selects a Cluster.
            assert _owners(obj) == wanted or (binding is None and {*_owners(obj)} < {*wanted}), source

    def describe(self) -> object:
        statuses = [(name, one.get("status")) for name, one in self.sets().items()]
        return self.number, self.values(), statuses, dig(self.binding(), "spec"), self.functions.writes[-5:]


def _reference(source: str) -> Object:
    return dict(zip(("kind", "name"), source.split("/"), strict=True))


def _is_applied(resource_set: Object) -> bool:
    found = get_condition(dig(resource_set, "status.conditions"), "ResourcesApplied") or {}
    observed = found.get("observedGeneration") == dig(resource_set, "metadata.generation")
    return found.get("status") == "True" and observed


def _owners(obj: Object) -> list[str]:
    return sorted(one["name"] for one in dig(obj, "metadata.ownerReferences", []) if one["kind"] != CLUSTER.kind)


@pytest.mark.timeout(3600)
def test_sets_end_the_same_when_functions_are_killed_at_a_write(
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
            return Journey(functions, management).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
