"""A namespace with Clusters of cluster stacks and ClusterRollouts on a real API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions import catalog
from shared.api.conditions import is_true
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_CLASS, CLUSTER_ROLLOUT
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, Object, dig, key_of
from shared.runtime import Answer
from tests.support import objects

OLD, NEW, NEWEST = "docker-ferrol-1-36-v1", "docker-ferrol-1-36-v2", "docker-ferrol-1-36-v3"
CANARY = {"name": "canary", "clusterSelector": {"matchLabels": {"wave": "canary"}}}
TIME = "2026-01-01T00:00:00Z"
_TEMPLATE = {"apiVersion": "example.dev/v1", "kind": "Template", "name": "any"}


def is_reported(cluster: Object) -> bool:
    """Returns whether the conditions are about the present spec."""
    found = dig(cluster, "status.conditions", [])
    return {one.get("observedGeneration") for one in found} == {cluster["metadata"]["generation"]}


@dataclass
class Rollouts:
    """Clusters and ClusterRollouts of one namespace; each call of the function is explicit."""

    client: Client
    clients: Clients
    namespace: str
    answers: list[Answer] = field(default_factory=list)

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def fleet(self, name: str = OLD, **waves: int) -> None:
        """Creates the ClusterClasses, and Clusters of a class that are ready, in waves of these sizes."""
        for each in (OLD, NEW, NEWEST):
            spec = {part: {"templateRef": _TEMPLATE} for part in ("infrastructure", "controlPlane")}
            self.client.create(CLUSTER_CLASS, objects.manifest(CLUSTER_CLASS, each, self.namespace, spec=spec))
        for wave, count in waves.items():
            for index in range(count):
                self.cluster(f"{wave}-{index}", name, wave=wave)
        self.report()

    def cluster(self, name: str, class_name: str = OLD, version: str = "v1.36.1", **labels: str) -> Object:
        spec = {"topology": {"classRef": {"name": class_name}, "version": version}}
        made = self.client.create(
            CLUSTER, objects.manifest(CLUSTER, name, self.namespace, metadata={"labels": labels}, spec=spec)
        )
        reference = {"kind": "Cluster", "name": name, "apiVersion": CLUSTER.api_version}
        addon = objects.manifest(CLUSTER_ADDON, addon_of(made).name, self.namespace, spec={"clusterRef": reference})
        self.client.create(CLUSTER_ADDON, addon)
        return made

    def rollout(self, name: str = "next", to: str = NEW, *, version: str = "", **spec: Any) -> Object:
        topology = {"classRef": {"name": to}, **({"version": version} if version else {})}
        wanted = {"clusterSelector": {}, "topology": topology, "rolloutStrategy": {}, **spec}
        body = objects.manifest(CLUSTER_ROLLOUT, name, self.namespace, spec=wanted)
        return self.client.create(CLUSTER_ROLLOUT, body)

    def patch(self, spec: Object, name: str = "next") -> None:
        self.client.patch(CLUSTER_ROLLOUT, self.key(name), {"spec": spec})

    def reconcile(self, name: str = "next") -> Object:
        """Delivers an event about a ClusterRollout; returns what is stored then."""
        obj = self.client.get(CLUSTER_ROLLOUT, self.key(name))
        answer = catalog.handler("cluster_rollout")(self.clients, change_event(obj, "update", source="/test"))
        assert answer.status in (202, 204), answer.message
        self.answers.append(answer)
        return self.client.get(CLUSTER_ROLLOUT, self.key(name))

    def report(self, *failing: str) -> None:
        """Reports as core, `cluster` and `addon_apply` do: all is reconciled, except the topology of `failing`."""
        for cluster in self.clusters():
            self._report(cluster, failing=cluster["metadata"]["name"] in failing)

    def report_next(self) -> None:
        """Reports the first Cluster that is not ready with its present spec, so that others are still in progress."""
        for cluster in [one for one in self.clusters() if not is_reported(one)][:1]:
            self._report(cluster)

    def _report(self, cluster: Object, *, failing: bool = False) -> None:
        key, generation = key_of(cluster), cluster["metadata"]["generation"]
        status, reason = ("False", "ReconcileFailed") if failing else ("True", "R")
        conditions = [
            {"type": type_, "status": value, "reason": why, "message": "", "observedGeneration": generation}
            for type_, value, why in (("Available", "True", "R"), ("TopologyReconciled", status, reason))
        ]
        body = {"status": {"conditions": [{**one, "lastTransitionTime": TIME} for one in conditions]}}
        addon = addon_of(cluster)
        applied = {"spec": {"clusterStack": dig(cluster, "spec.topology.classRef.name")}}
        self.client.patch(CLUSTER_ADDON, addon, applied)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": TIME}
        self.client.patch(CLUSTER_ADDON, addon, {"status": {"conditions": [ready]}}, subresource="status")
        self.client.patch(CLUSTER, key, body, subresource="status")

    def clusters(self) -> list[Object]:
        return sorted(self.client.list(CLUSTER, self.namespace), key=key_of)

    def check_limits(self, to: str, **limits: int) -> None:
        """Asserts that no wave, in this order, has more unavailable Clusters than its limit, or begins too early."""
        begun = True
        for wave, limit in limits.items():
            members = [one for one in self.clusters() if dig(one, "metadata.labels.wave") == wave]
            unavailable = [one["metadata"]["name"] for one in members if not is_reported(one)]
            moved = [one["metadata"]["name"] for one in members if dig(one, "spec.topology.classRef.name") == to]
            assert len(unavailable) <= limit, (wave, unavailable)
            assert begun or not moved, (wave, moved)
            begun = begun and not unavailable and len(moved) == len(members)

    def is_done(self, to: str, name: str = "next") -> bool:
        """Returns whether the status shows that all Clusters have the class, and it is true."""
        rollout = self.client.get(CLUSTER_ROLLOUT, self.key(name))
        observed = dig(rollout, "status.observedGeneration") == rollout["metadata"]["generation"]
        return observed and is_true(dig(rollout, "status.conditions"), "Ready") and self.with_class(to) == self.names()

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.clusters()]

    def with_class(self, name: str) -> list[str]:
        return [one["metadata"]["name"] for one in self.clusters() if dig(one, "spec.topology.classRef.name") == name]

    def remove_all(self) -> None:
        for resource in (CLUSTER_ROLLOUT, CLUSTER_ADDON, CLUSTER, CLUSTER_CLASS):
            for obj in list(self.client.list(resource, self.namespace)):
                objects.remove(self.client, resource, self.key(obj["metadata"]["name"]))
