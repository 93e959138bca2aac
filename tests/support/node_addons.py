"""The life of a Cluster's addons in an installation on a real node."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import urllib3

from shared.api import resources
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_CLASS,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CONFIG_MAP,
    SERVICE,
)
from shared.event import PING, Event
from shared.kube import Client, Key, Object, Resource, dig
from tests.support.demo_cluster import DemoCluster
from tests.support.node_installation import NAMESPACE, Installation
from tests.support.objects import manifest
from tests.support.releases import config_map
from tests.support.until import until

VERSIONS = itertools.count(1)
CLASS_TEMPLATE = """
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: "{{ .Release.Name }}-VERSION"}
spec: {}
"""


class Addons(DemoCluster):
    """The life of a Cluster's addons, from the first release to the deletion."""

    def __init__(self, installed: Installation, name: str, workload: Client) -> None:
        super().__init__(installed.client, name, installed.workload.read_bytes())
        self.installed, self.workload = installed, workload
        for client in (installed.client, workload):
            client.apply(resources.NAMESPACE, manifest(resources.NAMESPACE, name), manager="user")

    def wants(self, *, between: Callable[[], object] = lambda: None, **maps: str) -> None:
        """Publishes a release with these ConfigMaps in a ClusterStack, gives it to the Cluster, waits until applied."""
        class_name = self.offer(**maps)
        key = Key(self.namespace, class_name)
        until(lambda: self.client.find(CLUSTER_CLASS, key), f"the class {key}", between=between, details=self._describe)
        self.choose(class_name)
        self.until_applied(class_name, between=between, **maps)

    def offer(self, *others: Object, **maps: str) -> str:
        """Publishes a release with these objects and ConfigMaps in a ClusterStack; returns the name of its class."""
        objects = [*others, *(config_map(name, value, self.namespace) for name, value in maps.items())]
        version = f"v{next(VERSIONS)}"
        templates = {"class.yaml": CLASS_TEMPLATE.replace("VERSION", version)}
        class_name = self.installed.publish(version, objects, class_templates=templates)
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True}
        stack = manifest(CLUSTER_STACK, "stack", self.namespace, spec={**spec, "versions": [version]})
        self.client.apply(CLUSTER_STACK, stack, manager="user")
        return class_name

    def choose(self, class_name: str) -> None:
        """Gives the Cluster a class."""
        self.secret()
        self.cluster(class_name, policy={"drift": "repair"})

    def until_applied(self, class_name: str, *, between: Callable[[], object] = lambda: None, **maps: str) -> None:
        """Waits until the addons of a class are Ready: these ConfigMaps."""
        until(lambda: self._ready(class_name), f"{class_name} is ready", between=between, details=self._describe)
        assert self.maps() == maps

    def maps(self) -> dict[str, str]:
        """Returns the values of the ConfigMaps in the workload cluster."""
        found = self.workload.list(CONFIG_MAP, self.namespace)
        return {obj["metadata"]["name"]: obj["data"]["k"] for obj in found if "k" in obj["data"]}

    def drift(self, name: str, value: str) -> None:
        """Changes an applied object as somebody else does."""
        self.workload.patch(CONFIG_MAP, Key(self.namespace, name), {"data": {"k": value}})

    def remove(self) -> None:
        """Deletes Cluster and ClusterStack, and waits until garbage collection and functions have removed the rest."""
        self.delete()
        self.until_gone()

    def delete(self) -> None:
        """Deletes Cluster and ClusterStack."""
        self.client.delete(CLUSTER, self.cluster_key)
        self.client.delete(CLUSTER_STACK, Key(self.namespace, "stack"))

    def until_gone(self) -> None:
        """Waits until garbage collection and functions have removed what belongs to Cluster and ClusterStack."""
        for kind in (CLUSTER_ADDON, CLUSTER_STACK_RELEASE, CLUSTER_STACK):
            until(partial(self._no, kind), f"no {kind.kind} is left", details=self._describe)

    def _no(self, kind: Resource) -> bool:
        return not [*self.client.list(kind, self.namespace)]

    def _ready(self, class_name: str) -> bool:
        addon = self.client.find(CLUSTER_ADDON, self.addon_key)
        return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == class_name

    def _describe(self) -> str:
        ours = ("-n", NAMESPACE, "-l", "app.kubernetes.io/part-of=capi-functions")
        addon = self.client.find(CLUSTER_ADDON, self.addon_key)
        return f"{dig(addon, 'status.conditions')} {self.installed.kube('logs', *ours, '--tail=5')}"


def send_timer(installed: Installation, path: str, *, everything: bool = True) -> None:
    """Sends the sweep the event of its hourly timer, or of the other. It answers 503 while the former sweep runs."""
    name, _, function = path.partition("/")
    service = installed.client.get(SERVICE, Key(NAMESPACE, name))
    headers, body = Event(type=PING, source="/test", id=str(uuid.uuid4()), data={"everything": everything}).to_http()
    url = f"http://{service['spec']['clusterIP']}/{function}"
    with suppress(urllib3.exceptions.HTTPError):  # its pod may have been killed
        urllib3.request("POST", url, headers=headers, body=body, timeout=60.0, retries=False)
