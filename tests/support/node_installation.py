"""An installation on a real node: the published manifests, the image, an object store and releases that pods reach."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml

from infra import local_control_plane
from infra.node import addresses, daemons, knative
from infra.node.node import Node
from shared.api import resources
from shared.api.resources import CONFIG_MAP, DEPLOYMENT
from shared.kube import Client, Object, connect, dig
from tests.support import processes
from tests.support.moto_server import wait_ready
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.releases import write_release
from tests.support.until import HANGS, until

PROJECT = Path(__file__).parents[2]
NAMESPACE = RELEASE = "capi-functions"
CHART = str(PROJECT / "infra/chart")

_BUCKET, _RELEASES = "capi-functions", "releases"


@dataclass
class Installation:
    """The functions on a node, and what they work with."""

    node: Node
    kubectl: Path
    helm_program: Path
    client: Client
    store: Any
    workload: Path
    folder: Path

    # -- the management cluster ----------------------------------------------------------------------------------

    def kube(self, *arguments: str, stdin: str | None = None) -> str:
        """Returns the output of kubectl. Fails with its errors."""
        return self._run(self.kubectl, *arguments, stdin=stdin)

    def helm(self, *arguments: str, values: Object | None = None) -> str:
        """Returns the output of helm. Fails with its errors. `values` are those of the chart."""
        given = ("--values=-",) if values else ()
        return self._run(self.helm_program, *arguments, *given, stdin=json.dumps(values) if values else None)

    def _run(self, program: Path, *arguments: str, stdin: str | None) -> str:
        command = [program, f"--kubeconfig={self.node.kubeconfig}", *arguments]
        done = processes.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{program.name} {' '.join(arguments)}: {done.stderr[-3000:]}"
        return done.stdout

    def apply(self, objects: Sequence[Object]) -> None:
        """Applies objects as `kubectl apply --server-side` does."""
        self.kube("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def install_crds(self) -> None:
        """Installs our kinds as docs/installation.md does it for Knative, where no Cluster API core runs."""
        for kustomization in ("crds", "crds/cluster"):
            self.kube("apply", "--server-side", "-k", str(PROJECT / "infra/manifests" / kustomization))
        self.kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")

    def release(self, action: str = "install", **values: Any) -> None:
        """Installs or upgrades the release of the chart, and waits until its pods are Ready."""
        chosen = {"settings": self.settings, **values}
        self.helm(action, RELEASE, CHART, f"--namespace={NAMESPACE}", values=chosen)
        self.until_available(NAMESPACE)

    def install_knative(self, part: knative.Part) -> None:
        """Installs a part of Knative, and waits until its Deployments are available."""
        with measured(f"images of {part.namespace} imported"):
            for archive in part.archives(print):
                self.node.import_image(archive)
        with measured(f"{part.namespace} Available"):
            self.apply(part.manifests(print))
            self.until_available(part.namespace)

    def remove(self) -> None:
        """Removes what `install` has installed, by the commands of docs/installation.md; the CRDs stay."""
        self.kube("delete", "namespace", NAMESPACE, "--timeout=300s")
        self.kube("delete", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/part-of=capi-functions")

    def _configure(self) -> None:
        """Writes the settings of the installation: storage and source of releases."""
        self.apply([manifest(resources.NAMESPACE, NAMESPACE)])
        settings = self.settings
        self.apply([manifest(CONFIG_MAP, "capi-functions-releases", NAMESPACE, data=settings["releases"])])
        # The Secret wins over the ConfigMap of the store that `infra/manifests/single` brings.
        self.apply([secret("capi-functions-storage", NAMESPACE, **settings["storage"], **KEYS)])

    @property
    def settings(self) -> dict[str, dict[str, str]]:
        """The settings of the installation, by what they are for; none is secret."""
        return {
            "storage": {"S3_ENDPOINT_URL": self.store_url, "CAPI_FUNCTIONS_BUCKET": _BUCKET},
            "releases": {"RELEASE_SOURCE": f"s3://{_RELEASES}/all"},
        }

    def install(self, kustomization: str) -> None:
        """Writes the settings, and applies a kustomization below `infra/manifests`, as published."""
        self._configure()
        self.kube("apply", "--server-side", "-k", str(PROJECT / "infra/manifests" / kustomization))

    def built(self, kustomization: str) -> list[Object]:
        """Returns the objects of a kustomization below `infra/manifests`."""
        return [
            obj
            for obj in yaml.safe_load_all(self.kube("kustomize", str(PROJECT / "infra/manifests" / kustomization)))
            if obj
        ]

    def until_available(self, namespace: str) -> None:
        """Returns once all Deployments of a namespace are available."""
        until(
            lambda: not self._unavailable(namespace),
            f"all Deployments of {namespace} are available",
            pause=0.5,
            details=lambda: self.kube("get", "pods,events", "-n", namespace),
        )

    def _unavailable(self, namespace: str) -> list[str]:
        found = list(self.client.list(DEPLOYMENT, namespace))
        assert found
        return [
            obj["metadata"]["name"]
            for obj in found
            if dig(obj, "status.observedGeneration") != obj["metadata"]["generation"]
            or dig(obj, "status.updatedReplicas", 0) != dig(obj, "spec.replicas", 1)
            or dig(obj, "status.availableReplicas", 0) != dig(obj, "spec.replicas", 1)
        ]

    def memory(self, namespace: str) -> dict[str, int]:
        """Returns the resident memory of the pods of a namespace in MiB, by pod."""
        summary = json.loads(self.kube("get", "--raw", f"/api/v1/nodes/{daemons.NAME}/proxy/stats/summary"))
        pods = [pod for pod in summary["pods"] if pod["podRef"]["namespace"] == namespace]
        return {
            pod["podRef"]["name"]: sum(dig(found, "memory.rssBytes", 0) for found in pod.get("containers", [])) >> 20
            for pod in sorted(pods, key=lambda pod: pod["podRef"]["name"])
        }

    def kill_pods(self, name: str) -> None:
        """Kills the pods of a Deployment of ours."""
        self.delete_pods(NAMESPACE, f"app.kubernetes.io/name={name}")

    def delete_pods(self, namespace: str, selector: str) -> None:
        """Deletes pods without the time that a deletion gives them."""
        now = ("--force", "--grace-period=0", "--wait=false")
        assert self.kube("delete", "pods", "-n", namespace, f"--selector={selector}", *now)

    # -- releases and the workload cluster -----------------------------------------------------------------------

    @property
    def store_url(self) -> str:
        return str(self.store.meta.endpoint_url)

    def publish(self, version: str, objects: Sequence[Object], **options: Any) -> str:
        """Publishes a release; returns the name of its ClusterClass."""
        root = self.folder / "published"
        tag = write_release(root, version, list(objects), **options)
        for path in (root / tag).iterdir():
            self.store.upload_file(str(path), _RELEASES, f"all/{tag}/{path.name}")
        return tag

    def empty_store(self) -> None:
        """Deletes everything that functions wrote to object storage."""
        for page in self.store.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET):
            for entry in page.get("Contents", []):
                self.store.delete_object(Bucket=_BUCKET, Key=entry["Key"])


@contextmanager
def installation(node: Node, kubectl: Path, helm: Path, folder: Path) -> Iterator[Installation]:
    """Runs an object store and a workload cluster beside the node in the block."""
    with ExitStack() as cleanup:
        client = cleanup.enter_context(closing(connect.from_kubeconfig(str(node.kubeconfig))))
        store = _client(cleanup.enter_context(_store()))
        for bucket in (_BUCKET, _RELEASES):
            store.create_bucket(Bucket=bucket)
        workload = folder / "workload"
        local_control_plane.start(workload, owner=os.getpid(), network=addresses.WORKLOAD, progress=print, timeout=120)
        cleanup.callback(local_control_plane.stop, workload)
        yield Installation(node, kubectl, helm, client, store, local_control_plane.kubeconfig(workload), folder)


@contextmanager
def _store() -> Iterator[str]:
    """Runs an object store at an address that pods reach, in the block."""
    with socket.create_server((addresses.MACHINE, 0), backlog=128) as listener:
        command = [sys.executable, "-m", "tests.support.moto_server", "--fd", str(listener.fileno())]
        server = processes.start(command, cwd=PROJECT, pass_fds=[listener.fileno()])
        url = f"http://{addresses.MACHINE}:{listener.getsockname()[1]}"
    try:
        wait_ready(url, HANGS)
        yield url
    finally:
        server.kill()
        server.wait()


def _client(url: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Prints how long the block took; `make test-node` shows it."""
    started = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - started:.1f} s")
