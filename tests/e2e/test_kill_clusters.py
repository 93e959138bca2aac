"""The functions are killed before and after writes of a Cluster's life: the end is always the same.

A Cluster with a KINDCluster is created, provisioned, gets the certificates that it requests, its kubeconfig, a new
kubeconfig on request, and is deleted. While the functions are away, the user changes nothing, or deletes the Cluster.
"""

from __future__ import annotations

import base64
import itertools
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.api.conditions import is_true
from shared.api.names import CERTIFICATES_ANNOTATION, REGENERATE_ANNOTATION
from shared.api.resources import CLUSTER, KIND_CLUSTER, NAMESPACE, SECRET
from shared.event import change_event
from shared.kube import Client, Key, Object, dig
from shared.storage import ObjectStore
from tests.support import objects, quick_runtime
from tests.support.api_proxy import Request
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.until import until

FUNCTIONS = ("kind_cluster", "cluster", "kubeconfig")
VARIANTS = tuple(itertools.product((True, False), ("", "deletion")))
CERTIFICATES = ("etcd", "proxy", "sa", "apiserver-etcd-client")
"""What the Cluster requests; its KINDCluster publishes the CA."""
CONDITIONS = ("InfrastructureReady", "CertificatesAvailable", "KubeconfigAvailable", "RemoteConnectionProbe")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 10)


class Journey:
    """The life of one Cluster with its KINDCluster."""

    def __init__(self, functions: KillableFunctions, client: Client, instances: Path) -> None:
        self.functions, self.client, self.instances = functions, client, instances
        self.key = Key(f"kill-{uuid.uuid4().hex[:8]}", "demo")

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.functions.kill_at(point)
        self.functions.while_down = lambda: self.delete() if point and point.meanwhile == "deletion" else None
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.key.namespace))
        objects.create_local_cluster(self.client, self.key.name, self.key.namespace, kind_name="dev")
        self.annotate(CERTIFICATES_ANNOTATION, ", ".join(CERTIFICATES))
        self.until(lambda: self.deleted() or (self.provisioned() and self.quiet()), "Provisioned")
        if not self.deleted():
            self.check()
            self.annotate(REGENERATE_ANNOTATION, "")
            self.until(lambda: self.deleted() or (not self.requested() and self.quiet()), "a new kubeconfig")
        if not self.deleted():
            self.check()
            self.delete()
        self.until(lambda: not any(self.found()), "the end")
        assert list(self.client.list(SECRET, self.key.namespace)) == []
        assert list(self.instances.iterdir()) == []
        return self.functions.end()

    def until(self, reached: Callable[[], bool], what: str) -> None:
        until(reached, what, pause=0, between=self.turn, details=self.found)

    def turn(self) -> None:
        """Sends an event of each object to each function."""
        for resource, name in itertools.product((KIND_CLUSTER, CLUSTER), FUNCTIONS):
            found = self.client.find(resource, self.key)
            if found is not None:
                self.functions.deliver(name, change_event(found, "update", source="/test"))

    def found(self) -> list[Object | None]:
        return [self.client.find(resource, self.key) for resource in (CLUSTER, KIND_CLUSTER)]

    def provisioned(self) -> bool:
        status = dig(self.client.find(CLUSTER, self.key), "status", {})
        true = [is_true(status.get("conditions"), one) for one in CONDITIONS]
        return status.get("phase") == "Provisioned" and all(true)

    def annotate(self, name: str, value: str) -> None:
        self.client.patch(CLUSTER, self.key, {"metadata": {"annotations": {name: value}}})

    def requested(self) -> bool:
        return REGENERATE_ANNOTATION in dig(self.client.find(CLUSTER, self.key), "metadata.annotations", {})

    def quiet(self) -> bool:
        """Returns whether no function has anything left to write."""
        before = len(self.functions.writes)
        self.turn()
        return len(self.functions.writes) == before

    def deleted(self) -> bool:
        cluster, _ = self.found()
        return cluster is None or dig(cluster, "metadata.deletionTimestamp") is not None

    def delete(self) -> None:
        """Deletes the Cluster, and the KINDCluster if no Cluster has adopted it: nothing else would."""
        if self.client.find(CLUSTER, self.key):
            self.client.delete(CLUSTER, self.key)
        if not (self.client.find(CLUSTER, self.key) or dig(self.found()[1], "metadata.ownerReferences")):
            self.client.delete(KIND_CLUSTER, self.key)

    def check(self) -> None:
        """Asserts what a provisioned Cluster looks like."""
        cluster, kind_cluster = self.found()
        assert dig(cluster, "spec.controlPlaneEndpoint") == dig(kind_cluster, "spec.controlPlaneEndpoint")
        assert dig(cluster, "status.observedGeneration") == dig(cluster, "metadata.generation")
        [owner] = dig(kind_cluster, "metadata.ownerReferences")
        assert owner["uid"] == dig(cluster, "metadata.uid")
        assert [path.name for path in self.instances.iterdir()] == [dig(kind_cluster, "metadata.uid")]
        secrets = {one["metadata"]["name"]: one for one in self.client.list(SECRET, self.key.namespace)}
        assert set(secrets) == {f"demo-{one}" for one in (*CERTIFICATES, "ca", "kubeconfig")} | {"dev-config"}
        assert b"client-key-data" in base64.b64decode(secrets["demo-kubeconfig"]["data"]["value"])


@pytest.mark.timeout(3600)
def test_cluster_ends_the_same_when_functions_are_killed_at_a_write(
    management: Client,
    plane: Path,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    instances = quick_runtime.installed(tmp_path / "runtime", plane, monkeypatch)
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management, instances).take(point)

        check_kills(take, VARIANTS, pytestconfig, part)
