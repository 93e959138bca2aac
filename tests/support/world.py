"""One Cluster with a folder of releases, and functions called in this process as a broker calls them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, DEPLOYMENT, EVENT
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, Resource, dig
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.demo_cluster import ADDON, DemoCluster
from tests.support.releases import config_map, write_release

JOB = Resource("batch", "v1", "Job", "jobs")
_CONTAINER = {"name": "c", "image": "example.com/image:1"}


@dataclass
class World(DemoCluster):
    """The Cluster with a folder of releases. Each call of a function is explicit, and its answer is returned."""

    clients: Clients
    releases: Path
    answers: list[tuple[str, Answer]] = field(default_factory=list)

    def call(self, name: str, event: Event) -> Answer:
        answer = catalog.handler(name)(self.clients, event)
        self.answers.append((name, answer))
        return answer

    def settle(self) -> Answer:
        """Delivers events of Cluster and addon with all replies; returns addon_apply's last answer."""
        cluster = self.client.get(CLUSTER, self.cluster_key)
        self.call("addon_create", change_event(cluster, "update", source="/test"))
        answer = self.call("addon_apply", change_event(cluster, "update", source="/test"))
        for _ in range(3):
            if answer.reply is None:
                break
            fetched = self.call("release_assets", answer.reply)
            if fetched.reply is None:
                break
            answer = self.call("addon_apply", fetched.reply)
        return answer

    def reconcile(self, class_name: str) -> float | None:
        """Gives the Cluster its kubeconfig and this class; returns the seconds until the next look."""
        self.secret()
        self.cluster(class_name)
        return self.settle().retry_after

    def upgrade(self, *releases: list[Object]) -> None:
        """Applies releases with these objects, one after the other."""
        for number, applied in enumerate(releases, 1):
            self.reconcile(write_release(self.releases, f"v{number}", applied))

    def entries(self) -> dict[tuple[str, str], Object]:
        """Returns the addon's inventory by kind and name."""
        return {(entry["kind"], entry["name"]): entry for entry in dig(self.addon(), "status.resources", [])}

    def resync(self, *, repeated: bool = False) -> Answer:
        """Delivers the periodic resync, which also checks reconciled objects, or repeats one that had to wait."""
        event = change_event(self.addon(), "update", source="/test", reference=True, resync=True)
        return self.call("addon_apply", replace(event, repeated=repeated))

    def names(self) -> list[str]:
        """Returns the names of the ConfigMaps in the test's namespace."""
        found = self.client.list(CONFIG_MAP, self.namespace)
        return sorted(o["metadata"]["name"] for o in found if o["metadata"]["name"] != "kube-root-ca.crt")

    def map(self, name: str, value: str = "1") -> Object:
        return config_map(name, value, self.namespace)

    def immutable_map(self, name: str, value: str, **annotations: str) -> Object:
        obj = {**self.map(name, value), "immutable": True}
        obj["metadata"] = {**obj["metadata"], "annotations": annotations}
        return obj

    def deployment(self, name: str = "web") -> Object:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
        return objects.manifest(
            DEPLOYMENT, name, self.namespace, spec={"selector": {"matchLabels": labels}, "template": template}
        )

    def job(self, name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
        template = {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}
        metadata = {"annotations": annotations or {}}
        return objects.manifest(JOB, name, self.namespace, metadata=metadata, spec={"template": template, **spec})

    def event_messages(self) -> dict[str, str]:
        """Returns the messages of the Kubernetes events in the test's namespace by reason."""
        return {event["reason"]: event["message"] for event in self.client.list(EVENT, self.namespace)}

    def read(self, name: str) -> Object:
        return self.client.get(CONFIG_MAP, Key(self.namespace, name))


@pytest.fixture
def world(
    management: Client,
    clients: Clients,
    namespace: str,
    tmp_path: Path,
    kubeconfig: Path,
    object_store: ObjectStore,  # sets the environment
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    world = World(management, namespace, kubeconfig.read_bytes(), clients, tmp_path)
    yield world
    for resource, name in ((CLUSTER, "demo"), (CLUSTER_ADDON, ADDON)):
        objects.remove(management, resource, Key(namespace, name))
