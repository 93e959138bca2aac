"""What the demo sees of the management cluster, and of the workload cluster that it has made."""

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
CA_KEY, KUBECONFIG_KEY = Key("default", "demo-ca"), Key("default", "demo-kubeconfig")


class DemoError(Exception):
    """A step did not lead to what it should have."""


class Site:
    def __init__(self, client: Client) -> None:
        self.client = client
        self._workload: ClusterClients | None = None

    def cluster(self) -> Object | None:
        return self.client.find(CLUSTER, CLUSTER_KEY)

    def infrastructure(self) -> Object | None:
        return self.client.find(KIND_CLUSTER, CLUSTER_KEY)

    def addon(self) -> Object | None:
        return self.client.find(CLUSTER_ADDON, ADDON_KEY)

    def secret(self, key: Key) -> Object | None:
        return self.client.find(SECRET, key)

    def class_name(self) -> str:
        return str(dig(self.cluster(), "spec.topology.classRef.name"))

    def set_class(self, name: str) -> None:
        patch = {"spec": {"topology": {"classRef": {"name": name}}}}
        self.client.patch(CLUSTER, CLUSTER_KEY, patch, manager="demo")

    def leftovers(self) -> list[str]:
        left = [
            f"{resource.kind} {obj['metadata']['name']}"
            for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON, SECRET)
            for obj in self.client.list(resource, "default")
        ]
        return sorted(left)

    # -- the workload cluster --------------------------------------------------------------------------------------

    def connect(self) -> ClusterClients:
        """With the kubeconfig of the Secret, from now on. Raises `ApiError` where it is not let in."""
        kubeconfig = base64.b64decode(dig(self.secret(KUBECONFIG_KEY), "data.value", ""))
        self._workload = ClusterClients(connect_workload(kubeconfig))
        self._workload.client.text("/readyz")
        return self._workload

    @property
    def workload(self) -> ClusterClients:
        if self._workload is None:
            raise DemoError("there is no workload cluster yet")
        return self._workload

    def applied(self, entry: InventoryEntry) -> Object | None:
        """The live object of an entry of the inventory."""
        resource = self.workload.discovery.resource(entry.api_version, entry.kind)
        return self.workload.client.find(resource, Key(entry.namespace, entry.name)) if resource else None

    def live(self, obj: Object) -> Object | None:
        """What there is now of an object that was read before."""
        who = identity(obj)
        version = obj["apiVersion"].rpartition("/")[2]
        return self.applied(InventoryEntry(who.group, version, who.kind, who.namespace, who.name))
