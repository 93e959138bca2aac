"""Knative Serving's admission as a process: its webhook defaults and validates Knative Services, as in a cluster.

The API server reaches it by the Service that Knative's own configurations name, here an alias of this machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from infra.local import crds
from infra.local_control_plane.binaries import locate
from infra.local_control_plane.modules import module_of
from shared.api.resources import CONFIG_MAP, NAMESPACE, SECRET, SERVICE
from shared.kube import Client, Key, Object, Resource, dig, key_of
from shared.kube.crds import CRD
from tests.support import processes
from tests.support.ports import free_port
from tests.support.until import logged, until

SYSTEM = "knative-serving"
_PROGRAM = "serving-webhook"
_ADMISSION = "admissionregistration.k8s.io"
_WEBHOOKS = {
    kind: Resource(_ADMISSION, "v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


@contextmanager
def knative_serving(client: Client, kubeconfig: Path, log: Path) -> Iterator[None]:
    """Installs Serving's CRDs, and runs its webhook for Knative Services in the block."""
    serving, networking = (
        module_of(_PROGRAM).source(module, print) / "config"
        for module in ("knative.dev/serving", "knative.dev/networking")
    )
    crds.install(client, [obj for obj in _objects(serving / "core/300-resources") if obj["kind"] == CRD.kind])
    port = free_port()
    named = {"namespace": SYSTEM, "name": "webhook"}
    elsewhere = {"type": "ExternalName", "externalName": "localhost"}
    client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    client.create(SERVICE, {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": elsewhere})
    settings = [*_objects(serving / "core/configmaps"), *_objects(networking)]
    for obj in (obj for obj in settings if obj["kind"] == CONFIG_MAP.kind):
        client.create(CONFIG_MAP, obj)
    configurations = []
    for obj in _objects(serving / "core/webhooks"):
        if obj["kind"] == SECRET.kind:
            client.create(SECRET, obj)
        elif obj["metadata"]["name"] != "config.webhook.serving.knative.dev":
            for webhook in obj["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = port
            configurations.append((_WEBHOOKS[obj["kind"]], key_of(obj)))
            client.create(_WEBHOOKS[obj["kind"]], obj)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "SYSTEM_NAMESPACE": SYSTEM,
        "POD_NAME": "webhook",
        "WEBHOOK_NAME": "webhook",
        "WEBHOOK_PORT": str(port),
        "PROFILING_PORT": str(free_port()),
    }
    with log.open("ab") as output:
        process = processes.start(
            [locate([_PROGRAM], progress=print)[_PROGRAM]], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        for resource, key in configurations:
            until(partial(_is_trusted, client, resource, key), f"{key} has the CA", details=logged(log))
        yield
    finally:
        process.kill()
        process.wait()
        for resource, key in configurations:
            client.delete(resource, key)


def _is_trusted(client: Client, resource: Resource, key: Key) -> bool:
    webhooks = dig(client.get(resource, key), "webhooks")
    return all(dig(webhook, "clientConfig.caBundle") for webhook in webhooks)


def _objects(folder: Path) -> list[Object]:
    return [obj for path in sorted(folder.glob("*.yaml")) for obj in yaml.safe_load_all(path.read_text()) if obj]
