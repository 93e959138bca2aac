"""The objects of a load: a namespace with Clusters, whose kubeconfigs lead to one workload cluster.

A label marks the namespace, so that nothing is ever deleted in a namespace of others. The workload cluster gets a
namespace of the same name. Its age marks the start of the load there, because older objects do not belong to the load.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.names import kubeconfig_secret_of
from shared.api.resources import CLUSTER, NAMESPACE, SECRET
from shared.kube import Client, Key, Object, connect, dig, loading_rules
from shared.kube.connect import KubeconfigError
from shared.kube.loading_rules import Kubeconfig, entry

from ..failure import Failure

MARK, MARKED = "capi-functions.dev/bench", "fleet"
"""The label of the namespaces of a load."""
SPACE_LABEL = "capi-functions.dev/fleet"
"""The label of each Cluster's namespace in the workload cluster, in the release `local-fleet-*`; its value is the
namespace of the Cluster."""
THREADS = 8

_Item = TypeVar("_Item")


def each(work: Callable[[_Item], object], items: Iterable[_Item], done: Callable[[int], None]) -> None:
    """Calls `work` for each item in several threads, and `done` with the number so far. An error stops further
    calls."""
    pool = ThreadPoolExecutor(THREADS)
    try:
        for number, _ in enumerate(pool.map(work, items), 1):
            done(number)
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class WorkloadCluster:
    """The cluster that all Clusters of a load stand for.

    `kubeconfig` has one context, cluster and user, with inline credentials.
    """

    name: str
    kubeconfig: Object

    @classmethod
    def of(cls, loaded: Kubeconfig) -> WorkloadCluster:
        """Returns the cluster of a loaded kubeconfig. Raises `Failure` if a Secret cannot hold its credentials."""
        context = entry(loaded.document, "contexts", loaded.context, "context")
        parts: dict[str, Any] = {
            part: entry(loaded.document, f"{part}s", context.get(part), part) for part in ("cluster", "user")
        }
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "load",
            "contexts": [{"name": "load", "context": {"cluster": "load", "user": "load"}}],
            **{f"{part}s": [{"name": "load", part: dict(value)}] for part, value in parts.items()},
        }
        try:
            connect.inline_credentials(json.dumps(kubeconfig).encode())
        except KubeconfigError as error:
            hint = "name a kubeconfig with inline credentials with --workload-kubeconfig"
            raise Failure(f"{loaded} cannot be the workload cluster: {error}; {hint}") from None
        return cls(str(loaded), kubeconfig)

    @classmethod
    def load(cls, file: Path) -> WorkloadCluster:
        """Returns the cluster of a file. Raises `Failure` or `KubeconfigError`."""
        return cls.of(loading_rules.load([file]))

    def client(self) -> Client:
        """Returns a new client."""
        return Client(connect.inline_credentials(json.dumps(self.kubeconfig).encode()))

    def secret_value(self, cluster: str) -> str:
        """Returns the kubeconfig for one Cluster: different for each, so that functions share no connection."""
        return base64.b64encode(json.dumps(self.kubeconfig | {"preferences": {"of": cluster}}).encode()).decode()


@dataclass(frozen=True)
class Load:
    """The objects to create.

    Attributes:
        clusters: The number of Clusters.
        namespace: Their namespace.
        class_name: Their class, which names the release.
        class_namespace: The namespace of the class; empty: the Clusters' namespace.
    """

    clusters: int
    namespace: str
    class_name: str
    class_namespace: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the Clusters."""
        return [f"c{number:05}" for number in range(1, self.clusters + 1)]


def check_namespace(client: Client, name: str) -> bool:
    """Returns whether the namespace of a load exists. Raises `Failure` if it is not of a load."""
    found = client.find(NAMESPACE, Key("", name))
    if found is not None and dig(found, ("metadata", "labels", MARK)) != MARKED:
        raise Failure(
            f"Namespace {name} in {client.host} was not created by `bench fleet`: choose another name with --namespace"
        )
    return found is not None


def create_namespaces(load: Load, *clients: Client) -> None:
    """Creates the namespace of the load, in the management and in the workload cluster.

    Returns in the next second, so that the objects of the load are younger than its namespaces.
    """
    for client in clients:
        if not check_namespace(client, load.namespace):
            metadata = {"name": load.namespace, "labels": {MARK: MARKED}}
            client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    time.sleep(1.0)


def create_secrets(load: Load, management: Client, workload: WorkloadCluster, done: Callable[[int], None]) -> None:
    """Creates the kubeconfig Secrets; `done` is called with the number so far."""

    def create(name: str) -> None:
        key = kubeconfig_secret_of(Key(load.namespace, name))
        metadata = {"name": key.name, "namespace": key.namespace, "labels": {CLUSTER_NAME_LABEL: name}}
        secret: Object = {"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret", "metadata": metadata}
        management.create(SECRET, secret | {"data": {"value": workload.secret_value(name)}})

    each(create, load.names, done)


def create_clusters(load: Load, management: Client, version: str, done: Callable[[int], None]) -> dict[str, float]:
    """Creates the Clusters with a Kubernetes version; returns the creation times (monotonic seconds) by name."""
    created: dict[str, float] = {}
    class_ref = {"name": load.class_name} | ({"namespace": load.class_namespace} if load.class_namespace else {})

    def create(name: str) -> None:
        created[name] = time.monotonic()
        metadata = {"name": name, "namespace": load.namespace}
        spec = {"topology": {"classRef": class_ref, "version": version}}
        management.create(
            CLUSTER, {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata, "spec": spec}
        )

    each(create, load.names, done)
    return created
