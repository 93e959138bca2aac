"""A ClusterStack with a folder of releases, and functions called in this process as a broker calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from infra.local import crds
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, Resource, connect
from shared.kube.crds import CRD
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.releases import STACK, write_release
from tests.support.until import HANGS, until

CLASS = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses")
TEMPLATE = Resource("infrastructure.cluster.x-k8s.io", "v1beta1", "ToyMachineTemplate", "toymachinetemplates")
_PROVIDERS = "infrastructure.clusterstack.x-k8s.io"
TOY = Resource(_PROVIDERS, "v1alpha1", "ToyClusterStackRelease", "toyclusterstackreleases")
TOY_TEMPLATE = Resource(_PROVIDERS, "v1alpha1", "ToyClusterStackReleaseTemplate", "toyclusterstackreleasetemplates")


def definition(resource: Resource, *, required: str = "") -> Object:
    """Returns a CRD of a kind with any content; one field of its spec can be required."""
    spec: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if required:
        spec["required"] = [required]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


@pytest.fixture(scope="session")
def class_kinds(kubeconfig: Path) -> Iterator[None]:
    """Applies the CRDs that Cluster API and its providers install."""
    client = connect.from_kubeconfig(str(kubeconfig))
    brought = [definition(CLASS, required="infrastructure"), *map(definition, (TEMPLATE, TOY, TOY_TEMPLATE))]
    crds.install(client, brought)
    yield
    for crd in brought:
        client.delete(CRD, Key("", crd["metadata"]["name"]))
    client.close()


def classes(version: str, *, infrastructure: str = "{}", extra: str = "") -> dict[str, str]:
    """Returns the templates of a class chart with names like those of published charts."""
    text = f"""
apiVersion: {CLASS.api_version}
kind: ClusterClass
metadata: {{name: "{{{{ .Release.Name }}}}-{version}"}}
spec: {{infrastructure: {infrastructure}}}
---
apiVersion: {TEMPLATE.api_version}
kind: ToyMachineTemplate
metadata: {{name: "{{{{ .Release.Name }}}}-{version}-worker", namespace: "{{{{ .Release.Namespace }}}}"}}
spec: {{size: small}}
"""
    return {"class.yaml": text, "extra.yaml": extra}


@dataclass
class Stacks:
    """A ClusterStack named `stack`, a folder of releases, and functions called as a broker calls them."""

    client: Client
    clients: Clients
    namespace: str
    folder: Path
    answers: list[Answer] = field(default_factory=list)
    accounts: dict[str, Clients] = field(default_factory=dict)
    """The clients of single functions, instead of `clients`."""

    def publish(self, version: str, **options: Any) -> str:
        """Writes a release to the folder; returns its class name."""
        options.setdefault("class_templates", classes(version))
        return write_release(self.folder, version, **options)

    def stack(self, **spec: Any) -> Object:
        spec = {"provider": "test", "name": "stack", "kubernetesVersion": "1.36", "noProvider": True} | spec
        return self.apply(CLUSTER_STACK, "stack", spec=spec)

    def apply(self, resource: Resource, name: str, namespace: str = "", **content: Any) -> Object:
        body = objects.manifest(resource, name, namespace or self.namespace, **content)
        return self.client.apply(resource, body, manager="user")

    def cluster(self, class_name: str, name: str = "demo", **reference: str) -> Object:
        return self.apply(CLUSTER, name, spec={"topology": {"classRef": {"name": class_name, **reference}}})

    def find(self, resource: Resource, name: str) -> Object | None:
        return self.client.find(resource, Key(self.namespace, name))

    def get(self, resource: Resource, name: str) -> Object:
        return self.client.get(resource, Key(self.namespace, name))

    def delete(self, resource: Resource, name: str) -> Object:
        obj = self.get(resource, name)
        self.client.delete(resource, Key(self.namespace, name))
        return obj

    def names(self, resource: Resource) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in self.client.list(resource, self.namespace))

    def release(self, version: str) -> Object:
        return self.get(CLUSTER_STACK_RELEASE, f"{STACK}-{version}")

    def call(self, function: str, event: Event) -> Answer:
        answer = catalog.handler(function)(self.accounts.get(function, self.clients), event)
        self.answers.append(answer)
        return answer

    def look_at_stack(self) -> Answer:
        return self.call("cluster_stack", change_event(self.get(CLUSTER_STACK, "stack"), "update", source="/test"))

    def look_at(self, release: Object, *, resync: bool = False) -> Answer:
        """Delivers one event about a release, with all replies."""
        answer = self.call("cluster_stack_release", change_event(release, "update", source="/test", resync=resync))
        if answer.reply is not None:
            fetched = self.call("release_assets", answer.reply)
            assert fetched.reply is not None
            answer = self.call("cluster_stack_release", fetched.reply)
        return answer

    def settle(self) -> None:
        """Delivers events about the stack and its releases until nothing changes any more."""
        after = self.versions()
        for _ in range(12):
            before = after
            if self.find(CLUSTER_STACK, "stack"):
                self.look_at_stack()
            for release in list(self.client.list(CLUSTER_STACK_RELEASE, self.namespace)):
                self.look_at(release)
            after = self.versions()
            if after == before:
                return
        raise AssertionError(f"does not come to rest: {after}")

    def until(self, reached: Callable[[], bool], what: str, *, within: float = HANGS) -> None:
        until(reached, what, within=within, details=self.versions)

    def versions(self) -> dict[str, str]:
        return {
            f"{resource.kind} {obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for resource in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLASS, TEMPLATE, TOY)
            for obj in self.client.list(resource, self.namespace)
        }

    def condition(self, obj: Object, type_: str) -> Object:
        return objects.condition(obj, type_)

    def of_stack(self, type_: str) -> Object:
        return self.condition(self.get(CLUSTER_STACK, "stack"), type_)


@pytest.fixture
def stacks(
    class_kinds: None,
    management: Client,
    clients: Clients,
    namespace: str,
    tmp_path: Path,
    object_store: ObjectStore,  # sets the environment
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stacks]:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    yield Stacks(management, clients, namespace, tmp_path)
    for resource in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLUSTER, TOY):
        for obj in list(management.list(resource, namespace)):
            objects.remove(management, resource, Key(namespace, obj["metadata"]["name"]))
