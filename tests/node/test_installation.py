"""The published manifests and image on a real node: pods, DNS, Services, service accounts, as in any cluster."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial

import pytest
import urllib3

from infra.node import knative
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, CONFIG_MAP
from shared.event import PING, Event
from shared.kube import Client, Key, Object, Resource, connect, dig
from tests.support.audit import AuditLog, granted, unused
from tests.support.demo_cluster import DemoCluster
from tests.support.node_installation import NAMESPACE, NAMESPACES, Installation, measured
from tests.support.objects import manifest
from tests.support.releases import config_map
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

VERSIONS = itertools.count(1)
CLUSTER_CLASS = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses")
CLASS_TEMPLATE = """
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: "{{ .Release.Name }}-VERSION"}
spec: {}
"""
BROKER_PODS = ("eventing.knative.dev/brokerRole in (ingress, filter)", "messaging.knative.dev/role=dispatcher")
KINDS = "brokers,triggers,pingsources,sinkbindings"
SERVICE = Resource("", "v1", "Service", "services")


class Addons(DemoCluster):
    """The life of a Cluster's addons, from the first release to the deletion."""

    def __init__(self, installed: Installation, name: str, workload: Client) -> None:
        super().__init__(installed.client, name, installed.workload.read_bytes())
        self.installed, self.workload = installed, workload
        for client in (installed.client, workload):
            client.apply(NAMESPACES, manifest(NAMESPACES, name), manager="user")

    def wants(self, *, between: Callable[[], object] = lambda: None, **maps: str) -> None:
        """Publishes a release with these ConfigMaps in a ClusterStack, gives it to the Cluster, waits until applied."""
        objects = [config_map(name, value, self.namespace) for name, value in maps.items()]
        version = f"v{next(VERSIONS)}"
        templates = {"class.yaml": CLASS_TEMPLATE.replace("VERSION", version)}
        class_name = self.installed.publish(version, objects, class_templates=templates)
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True}
        stack = manifest(CLUSTER_STACK, "stack", self.namespace, spec={**spec, "versions": [version]})
        self.client.apply(CLUSTER_STACK, stack, manager="user")
        key = Key(self.namespace, class_name)
        until(lambda: self.client.find(CLUSTER_CLASS, key), f"the class {key}", between=between, details=self._describe)
        self.secret()
        self.cluster(class_name, policy={"drift": "repair"})
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
        self.client.delete(CLUSTER, self.cluster_key)
        self.client.delete(CLUSTER_STACK, Key(self.namespace, "stack"))
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


@pytest.fixture
def workload(installed: Installation) -> Iterator[Client]:
    with closing(connect.from_kubeconfig(str(installed.workload))) as client:
        yield client


def live(addons: Addons, *, deployments: tuple[str, str], sweep: str) -> None:
    """A Cluster gets addons, is upgraded, drifts and is repaired, and is deleted, while pods are killed.

    `deployments` are those of the function that applies, and of the one that fetches; `sweep` is a path to the sweep.
    """
    installed = addons.installed
    with measured("first addons Ready"):
        addons.wants(kept="1", changed="1", dropped="1")
    for name in deployments:
        installed.kill_pods(name)
    with measured("upgrade, functions killed"):
        addons.wants(kept="1", changed="2", added="1")
    addons.drift("kept", "of somebody else")
    with measured("repair"):
        repaired = "the drift is repaired"
        until(lambda: addons.maps()["kept"] == "1", repaired, between=lambda: send_timer(installed, sweep), pause=2)
    installed.empty_store()
    installed.kill_pods(deployments[0])
    with measured("upgrade, object store emptied and function killed"):
        addons.wants(kept="2")
    with measured("deletion"):
        addons.remove()
    print("MiB:", installed.memory(NAMESPACE))


def rights(audit: AuditLog, objects: list[Object]) -> None:
    """Asserts that no account lacked a right, and prints the rights that none needed."""
    used = audit.used()
    for account, granted_rights in sorted(granted(objects).items()):
        needless = ", ".join(map(str, unused(granted_rights, used.get(account, ()))))
        print(f"{account}: not needed in this journey: {needless or 'nothing'}")
    assert audit.denied() == {}


def test_addons_live_without_knative(installed: Installation, audit: AuditLog, workload: Client) -> None:
    profile = "profiles/addons/single"
    with measured("functions Available"):
        installed.install(profile)
        installed.until_available(NAMESPACE)
    pods = ("capi-functions", "capi-functions")
    live(Addons(installed, "single", workload), deployments=pods, sweep="capi-functions/sweep")
    rights(audit, installed.built(profile))
    installed.kube("delete", "deployments", "--all", "-n", NAMESPACE)


def test_addons_live_with_knative(installed: Installation, audit: AuditLog, workload: Client) -> None:
    with measured("Knative's images imported"):
        for archive in knative.archives(print):
            installed.node.import_image(archive)
    with measured("Knative Available"):
        installed.apply(knative.manifests(print))
        installed.until_available(knative.NAMESPACE)
    profile = "profiles/addons/forwarder"
    begin_with_sources(installed, Addons(installed, "sourced", workload), profile)
    live(Addons(installed, "brokered", workload), deployments=("addon-apply", "release-assets"), sweep="sweep/")
    outlive_broker(Addons(installed, "unlucky", workload))
    rights(audit, installed.built(profile))


def begin_with_sources(installed: Installation, addons: Addons, profile: str) -> None:
    """A Cluster gets addons by ApiServerSources and sweeps; then the forwarder takes their place, as the docs say."""
    ready = ("wait", "--for=condition=Ready", "--all", "-n", NAMESPACE, "--timeout=300s")
    sweep = partial(send_timer, installed, "sweep/", everything=False)
    with measured("Broker, Triggers, ApiServerSources and functions Ready"):
        installed.install(profile.replace("forwarder", "sources"))
        installed.kube(*ready, f"{KINDS},apiserversources")
        installed.until_available(NAMESPACE)
    with measured("first addons Ready, with ApiServerSources"):
        addons.wants(kept="1", between=sweep)
    with measured("forwarder in place of the ApiServerSources"):
        installed.install(profile)
        installed.until_available(NAMESPACE)
        installed.kube("delete", "apiserversources", "-n", NAMESPACE, "resources", "references")
        installed.kube(
            *("delete", "serviceaccount,clusterrole,clusterrolebinding", "-n", NAMESPACE),
            "capi-functions-sources",
        )
        installed.kube(*ready, KINDS)
    with measured("upgrade, with the forwarder"):
        addons.wants(kept="2")
    addons.remove()


def outlive_broker(addons: Addons) -> None:
    """An upgrade goes on while the pods are killed that events pass; the sweep repeats what is lost with them."""
    addons.wants(kept="1")
    with measured("upgrade, Knative's ingress, filter and dispatcher killed"):
        for label in BROKER_PODS:
            addons.installed.delete_pods(knative.NAMESPACE, label)
        addons.wants(kept="2", between=lambda: send_timer(addons.installed, "sweep/"))
    addons.remove()


def send_timer(installed: Installation, path: str, *, everything: bool = True) -> None:
    """Sends the sweep the event of its hourly timer, or of the other. It answers 503 while the former sweep runs."""
    name, _, function = path.partition("/")
    service = installed.client.get(SERVICE, Key(NAMESPACE, name))
    headers, body = Event(type=PING, source="/test", id=str(uuid.uuid4()), data={"everything": everything}).to_http()
    url = f"http://{service['spec']['clusterIP']}/{function}"
    with suppress(urllib3.exceptions.HTTPError):  # its pod may have been killed
        urllib3.request("POST", url, headers=headers, body=body, timeout=60.0, retries=False)
