"""Managers of other projects, built from their Go modules, with the installation that their repositories have.

A process stands for the pod of a manager's Deployment, and its address for the Service of its webhooks.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.local import crds
from infra.local_control_plane import go_build
from shared import bounded_yaml
from shared.api.resources import DEPLOYMENT, NAMESPACE, SECRET
from shared.components.certificates import CERT_MANAGER
from shared.kube import Client, Key, Object, dig
from shared.kube.crds import CRD
from shared.kube.discovery import Discovery
from tests.support import processes
from tests.support.registry import certificate


@dataclass(frozen=True)
class RealManager:
    """A manager of a management cluster; `folder` is its home, and has the certificate of its webhooks."""

    client: Client
    kubeconfig: Path
    folder: Path
    module: str
    version: str
    deployment: Key
    port: int
    """The port of its webhooks."""

    @property
    def log(self) -> Path:
        return self.folder / "manager.log"

    @contextmanager
    def process(self, package: str, flags: Sequence[str], path: str = os.environ["PATH"]) -> Iterator[None]:
        """Runs the manager in the block, with a log of its own. `package` is its folder in the module."""
        name = self.deployment.name.removesuffix("-controller-manager")
        program = go_build.of_module(name, f"{self.module}/{package}@{self.version}", print)
        home = {"HOME": str(self.folder), "TMPDIR": str(self.folder), "PATH": path}
        with self.log.open("wb") as output:
            process = processes.start(
                [str(program), *flags],
                env={**home, "KUBECONFIG": str(self.kubeconfig)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    def install(self, kubectl: Path) -> None:
        """Applies the kustomization `config/default` of the module, without its Secrets and without certificates."""
        certificate(self.folder)
        source, _ = go_build.source_of(self.module, self.version, print)
        rendered = processes.run(
            [str(kubectl), "kustomize", str(source / "config" / "default")], capture_output=True, check=True
        )
        found = [obj for obj in bounded_yaml.load_all(rendered.stdout.decode()) if obj]
        crds.install(self.client, [obj for obj in found if obj["kind"] == CRD.kind], manager="user")
        discovery = Discovery(self.client)
        for obj in sorted(found, key=lambda one: one["kind"] != NAMESPACE.kind):
            if obj["kind"] in (CRD.kind, SECRET.kind) or CERT_MANAGER in obj["apiVersion"]:
                continue
            resource = discovery.resource(obj["apiVersion"], obj["kind"])
            assert resource is not None, obj["kind"]
            for webhook in obj.get("webhooks", []):
                webhook["clientConfig"] = self._address(webhook["clientConfig"])
            self.client.apply(resource, obj, manager="user")

    def replicas(self) -> int:
        return int(dig(self.client.get(DEPLOYMENT, self.deployment), "spec.replicas"))

    def _address(self, of_service: Mapping[str, Object]) -> Object:
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self.port}{of_service['service']['path']}", "caBundle": authority}
