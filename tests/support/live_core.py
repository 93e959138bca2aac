"""A management cluster with the unmodified managers of Cluster API, and our functions beside them, as processes."""

from __future__ import annotations

import base64
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra import local_control_plane
from infra.local import crds
from infra.local.managers import LocalProvider, Managers
from infra.local.services import Services
from infra.local_control_plane.binaries import locate
from shared import bounded_yaml
from shared.api.conditions import is_true
from shared.components.render import generate_components
from shared.components.substitute import substitute
from shared.kube import Client, Key, Object, Resource, dig
from shared.kube.discovery import Discovery
from tests.support.hooks_server import HooksServer
from tests.support.objects import manifest
from tests.support.planes import connected
from tests.support.ports import fixed_port
from tests.support.real_providers import CURRENT, DOWNLOADS, PROVIDERS, TEMPLATES, components
from tests.support.until import until

NAMESPACES = {
    "cluster-api": "capi-system",
    "bootstrap-kubeadm": "capi-kubeadm-bootstrap-system",
    "control-plane-kubeadm": "capi-kubeadm-control-plane-system",
    "infrastructure-docker": "capd-system",
}
"""The namespaces that releases name, by the label of the provider."""
FEATURES = {"CLUSTER_TOPOLOGY": "true", "EXP_RUNTIME_SDK": "true"}
OURS = "our-functions"
"""The user name of the functions."""
_EXTENSION = Resource("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig", "extensionconfigs", namespaced=False)
_DEBUG_PORT = 19000
"""Docker's manager listens on this port, which no flag changes."""
_CALL = re.compile(r"cluster_hooks (\w+) (\S+) -> 200 .* outcome=(\w+)")
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    ],
}


@dataclass
class LiveCore:
    """The management cluster. The functions of the profile `addons` run, with releases in the folder `releases`."""

    plane: Path
    client: Client
    managers: Managers
    services: Services
    hooks: HooksServer
    releases: Path
    folder: Path

    def __post_init__(self) -> None:
        self._discovery = Discovery(self.client)

    @property
    def kubeconfig(self) -> bytes:
        return local_control_plane.kubeconfig(self.plane).read_bytes()

    def apply(self, *objects: Object) -> None:
        """Applies objects as a user does, in their order."""
        for obj in objects:
            resource = self._discovery.resource(obj["apiVersion"], obj["kind"])
            assert resource is not None, obj["kind"]
            self.client.apply(resource, obj, manager="user")

    def enable_hooks(self) -> None:
        """Registers the hooks, and returns once core has discovered them."""
        certificate = base64.b64encode(self.hooks.ca.cert_pem).decode()
        client = {"url": f"https://127.0.0.1:{self.hooks.port}", "caBundle": certificate}
        self.apply(manifest(_EXTENSION, "capi-functions", spec={"clientConfig": client}))
        key = Key("", "capi-functions")
        until(lambda: is_true(dig(self.client.get(_EXTENSION, key), "status.conditions"), "Discovered"), "Discovered")

    def hooks_called(self, cluster: Key) -> dict[str, list[str]]:
        """Returns the outcomes of the hooks that core has called for a Cluster, by hook."""
        found: dict[str, list[str]] = defaultdict(list)
        for hook, name, outcome in _CALL.findall((self.hooks.folder / "log").read_text()):
            if name == str(cluster):
                found[hook].append(outcome)
        return found

    def templates(self, variables: Mapping[str, str]) -> list[Object]:
        """Returns the objects of the release's `TEMPLATES`."""
        texts = [(_release() / name).read_text() for name in TEMPLATES]
        objects = [obj for text in texts for obj in bounded_yaml.load_all(substitute(text, variables)) if obj]
        for obj in objects:
            obj["metadata"].setdefault("namespace", variables["NAMESPACE"])
        return objects

    def writers(self) -> dict[str, list[str]]:
        """Returns who wrote each object of the management cluster: users in their order, without repetitions."""
        found: dict[str, list[str]] = defaultdict(list)
        for line in (self.folder / "audit.log").read_text().splitlines():
            event = json.loads(line)
            of, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
            if code >= 300 or of.get("resource") == "events":
                continue
            name = f"{of.get('resource')}/{of.get('namespace', '')}/{of.get('name', '')}"
            writers, user = found[name], event["user"]["username"]
            if writers[-1:] != [user]:
                writers.append(user)
        return dict(found)


@contextmanager
def live_core(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[LiveCore]:
    """Runs the cluster, its managers, and our functions in the block."""
    plane, releases = folder / "management", folder / "releases"
    releases.mkdir()
    programs = locate([f"{provider.label}-manager" for provider in PROVIDERS], progress=print)
    with ExitStack() as cleanup:
        cleanup.enter_context(fixed_port(_DEBUG_PORT))
        cleanup.callback(local_control_plane.stop, plane)
        environment.setenv("GOGC", "200")
        local_control_plane.start(plane, owner=os.getpid(), progress=print, timeout=120, binaries=_audited(folder))
        client = cleanup.enter_context(connected(plane))
        managers = Managers(plane, folder, client, progress=print, timeout=300)
        cleanup.callback(managers.stop)
        managers.start(
            [LocalProvider(_objects(one.file, one.label), programs[f"{one.label}-manager"]) for one in PROVIDERS]
        )
        crds.install_missing(client, crds.load())
        ours = local_control_plane.add_user(plane, OURS, ["system:masters"])
        services = Services(folder / "logs" / "functions.log", ["addons"])
        cleanup.callback(services.stop)
        store = services.start_object_store()
        services.start_functions({**store, "KUBECONFIG": str(ours), "RELEASE_SOURCE": releases.as_uri()})
        services.start_forwarder(client)
        (folder / "hooks").mkdir()
        hooks = HooksServer(folder / "hooks", ours)
        cleanup.callback(hooks.close)
        hooks.start()
        yield LiveCore(plane, client, managers, services, hooks, releases, folder)


def _release() -> Path:
    return components(CURRENT) / DOWNLOADS / CURRENT


def _objects(file: str, label: str) -> list[Object]:
    return generate_components((_release() / file).read_text(), FEATURES, namespace=NAMESPACES[label], label=label)


def _audited(folder: Path) -> dict[str, Path]:
    """Returns etcd, and a command that starts the API server with an audit log."""
    binaries = locate(["etcd", "kube-apiserver"], progress=print)
    policy, command = folder / "audit.json", folder / "audited-apiserver"
    policy.write_text(json.dumps(_POLICY))
    flags = f'--audit-policy-file="{policy}" --audit-log-path="{folder / "audit.log"}" --audit-log-maxsize=100000'
    command.write_text(f'#!/bin/sh\nexec "{binaries["kube-apiserver"]}" "$@" {flags}\n')
    command.chmod(0o755)
    return {**binaries, "kube-apiserver": command}
