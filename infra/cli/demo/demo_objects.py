"""Reads and writes the demo's objects in the management cluster and in the workload cluster."""

from __future__ import annotations

import base64

from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER, SECRET
from shared.applier.inventory import InventoryEntry
from shared.clients import ClusterClients
from shared.kube import Client, Key, Object, dig
from shared.kube.connect import workload as connect_workload
from shared.manifests import identity

CLUSTER_KEY = Key("default", "demo")
ADDON_KEY = Key("default", "cluster-addon-demo")
KUBECONFIG_KEY = Key("default", "demo-kubeconfig")


class DemoError(Exception):
    """A step did not have the expected result."""


class DemoObjects:
    """The demo's objects in both clusters."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._workload: ClusterClients | None = None

    def cluster(self) -> Object | None:
        """Returns the Cluster."""
        return self.client.find(CLUSTER, CLUSTER_KEY)

    def infrastructure(self) -> Object | None:
        """Returns the KINDCluster."""
        return self.client.find(KIND_CLUSTER, CLUSTER_KEY)

    def addon(self) -> Object | None:
        """Returns the ClusterAddon."""
        return self.client.find(CLUSTER_ADDON, ADDON_KEY)

    def kubeconfig(self) -> Object | None:
        """Returns the Secret with the kubeconfig."""
        return self.client.find(SECRET, KUBECONFIG_KEY)

    def class_name(self) -> str:
        """Returns the name of the Cluster's class."""
        return str(dig(self.cluster(), "spec.topology.classRef.name"))

    def set_class(self, name: str) -> None:
        """Sets the Cluster's class."""
        patch = {"spec": {"topology": {"classRef": {"name": name}}}}
        self.client.patch(CLUSTER, CLUSTER_KEY, patch, manager="demo")

    def leftovers(self) -> list[str]:
        """Returns kind and name of each object of the demo."""
        left = [
            f"{resource.kind} {obj['metadata']['name']}"
            for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON, SECRET)
            for obj in self.client.list(resource, "default")
        ]
        return sorted(left)

    # -- the workload cluster --------------------------------------------------------------------------------------

    def connect(self) -> ClusterClients:
        """Connects to the workload cluster with the kubeconfig in the Secret. Raises `ApiError` if that is refused."""
        kubeconfig = base64.b64decode(dig(self.kubeconfig(), "data.value", ""))
        self._workload = ClusterClients(connect_workload(kubeconfig))
        self._workload.client.text("/readyz")
        return self._workload

    @property
    def workload(self) -> ClusterClients:
        """The connection to the workload cluster. Raises `DemoError` before `connect`."""
        if self._workload is None:
            raise DemoError("there is no workload cluster yet")
        return self._workload

    def applied(self, entry: InventoryEntry) -> Object | None:
        """Returns the live object of an entry of the inventory."""
        resource = self.workload.discovery.resource(entry.api_version, entry.kind)
        return self.workload.client.find(resource, Key(entry.namespace, entry.name)) if resource else None

    def live(self, obj: Object) -> Object | None:
        """Reads an object again; None if it no longer exists."""
        who = identity(obj)
        version = obj["apiVersion"].rpartition("/")[2]
        return self.applied(InventoryEntry(who.group, version, who.kind, who.namespace, who.name))
