"""The Cluster `demo` with its kubeconfig Secret and its ClusterAddon, which all tests of addons have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.resources import CLUSTER, CLUSTER_ADDON, SECRET
from shared.kube import Client, Key, Object
from tests.support import objects

ADDON = "cluster-addon-demo"


@dataclass
class DemoCluster:
    """The objects of one Cluster; `kubeconfig` is the content of its Secret."""

    client: Client
    namespace: str
    kubeconfig: bytes

    @property
    def cluster_key(self) -> Key:
        return Key(self.namespace, "demo")

    @property
    def addon_key(self) -> Key:
        return Key(self.namespace, ADDON)

    def cluster(self, class_name: str = "", *, policy: dict[str, str] | None = None, **spec: Any) -> Object:
        """Applies the Cluster as a user does."""
        topology: Object = {"topology": {"classRef": {"name": class_name}}} if class_name else {}
        annotations = {f"capi-functions.dev/{name}": value for name, value in (policy or {}).items()}
        metadata = {"annotations": annotations}
        body = objects.manifest(CLUSTER, "demo", self.namespace, metadata=metadata, spec={**topology, **spec})
        return self.client.apply(CLUSTER, body, manager="user")

    def secret(self, value: bytes | None = None) -> None:
        """Applies the kubeconfig Secret."""
        kubeconfig = self.kubeconfig if value is None else value
        body = objects.secret("demo-kubeconfig", self.namespace, value=kubeconfig)
        self.client.apply(SECRET, body, manager="user")

    def addon(self) -> Object:
        return self.client.get(CLUSTER_ADDON, self.addon_key)

    def condition(self, type_: str) -> Object:
        return objects.condition(self.addon(), type_)
