"""A HelmReleaseProxy of the Cluster `demo`, charts in storage, and the helm program as a user of the cluster has it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions import catalog
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY, NAMESPACE
from shared.clients import Clients
from shared.event import change_event
from shared.helm_charts.request import ChartRequest
from shared.helm_charts.store import ChartStore
from shared.helm_proxies.names import CLUSTER_NAME_LABEL
from shared.kube import Client, Key, Object
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.demo_cluster import DemoCluster
from tests.support.releases import archive

REPOSITORY = "https://charts.example.com"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {0}}}\ndata: {{x: {{{{ .Values.x | quote }}}}}}\n"


def packed(version: str, templates: Mapping[str, str], **files: str) -> bytes:
    """Returns a chart `web`; `files` are further YAML files, with `__` for a slash."""
    texts = {f"web/templates/{name}": text for name, text in templates.items()}
    texts |= {f"web/{name.replace('__', '/')}.yaml": text for name, text in files.items()}
    metadata = f"apiVersion: v2\nname: web\nversion: {version}\nappVersion: 1.20\n"
    return archive({"web/Chart.yaml": metadata, "web/values.yaml": "x: default\n", **texts})


@dataclass
class HelmWorld(DemoCluster):
    """The Cluster `demo`, whose workload cluster is the management cluster, and its Helm releases."""

    clients: Clients
    store: ObjectStore
    helm_program: Path
    folder: Path

    @property
    def releases(self) -> str:
        """The namespace of the releases."""
        return f"{self.namespace}-apps"

    def initialized(self) -> None:
        """Makes the Cluster one whose API server answers."""
        self.cluster()
        self.secret()
        status = {"status": {"initialization": {"controlPlaneInitialized": True}}}
        self.client.patch(CLUSTER, self.cluster_key, status, subresource="status")

    def chart(self, version: str, templates: Mapping[str, str], **files: str) -> None:
        request = ChartRequest(REPOSITORY, "web", version, self.namespace)
        ChartStore(self.store).save(request, "web", version, packed(version, templates, **files))

    def proxy(self, name: str = "web-demo", version: str = "1.0.0", **spec: Any) -> Object:
        """Applies a HelmReleaseProxy as its HelmChartProxy does."""
        given = {
            "clusterRef": {"apiVersion": CLUSTER.api_version, "kind": "Cluster", **self.cluster_key._asdict()},
            "chartName": "web",
            "repoURL": REPOSITORY,
            "releaseName": "web",
            "namespace": self.releases,
            "version": version,
            **spec,
        }
        body = objects.manifest(
            HELM_RELEASE_PROXY,
            name,
            self.namespace,
            metadata={"labels": {CLUSTER_NAME_LABEL: "demo"}},
            spec={field: value for field, value in given.items() if value is not None},
        )
        return self.client.apply(HELM_RELEASE_PROXY, body, manager="user")

    def read(self, name: str = "web-demo") -> Object:
        return self.client.get(HELM_RELEASE_PROXY, Key(self.namespace, name))

    def call(self, name: str = "web-demo", *, resync: bool = False) -> Answer:
        event = change_event(self.read(name), "update", source="/test", resync=resync)
        return catalog.handler("helm_release_proxy")(self.clients, event)

    def condition(self, type_: str, name: str = "web-demo") -> Object:
        return objects.condition(self.read(name), type_)

    def helm(self, *arguments: str) -> str:
        """Runs the helm program in the namespace of the releases, and returns its output."""
        path = self.folder / "kubeconfig"
        path.write_bytes(self.kubeconfig)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(path)}
        command = [str(self.helm_program), "--namespace", self.releases, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def history(self) -> list[tuple[int, str]]:
        """Returns what `helm history` shows: revision and status."""
        listed = json.loads(self.helm("history", "web", "--output", "json"))
        return [(one["revision"], one["status"]) for one in listed]


@pytest.fixture
def helm_world(
    management: Client,
    clients: Clients,
    namespace: str,
    kubeconfig: Path,
    object_store: ObjectStore,
    helm: Path,
    tmp_path: Path,
) -> Iterator[HelmWorld]:
    world = HelmWorld(management, namespace, kubeconfig.read_bytes(), clients, object_store, helm, tmp_path)
    world.initialized()
    yield world
    for proxy in list(management.list(HELM_RELEASE_PROXY, namespace)):
        objects.remove(management, HELM_RELEASE_PROXY, Key(namespace, proxy["metadata"]["name"]))
    objects.remove(management, CLUSTER, world.cluster_key)
    management.delete(NAMESPACE, Key("", world.releases))
