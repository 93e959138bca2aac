"""A runtime of KINDClusters without processes: an instance is a file, and it is ready when it is inspected again.

All instances have the API server of one control plane that runs already.

`installed` makes it the runtime of the functions servers that a test starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from functions.kind_cluster.runtime import GROUP, Instance, InstanceSpec
from infra import local_control_plane
from shared.kube import connect

_NAME, _FOLDER = "quick", "QUICK_RUNTIME"


class QuickRuntime:
    """Keeps the instances in a folder, by the uid of the KINDCluster, and in files the CA and the port of all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def inspect(self, spec: InstanceSpec) -> Instance:
        """Implements `Runtime.inspect`."""
        instance = self._instances / spec.uid
        if not instance.exists():
            return Instance("absent")
        if not instance.read_text():
            instance.write_text("ready")
            return Instance("starting")
        ca = (self._folder / "ca.crt").read_bytes(), (self._folder / "ca.key").read_bytes()
        port = int((self._folder / "port").read_text())
        return Instance("ready", host="127.0.0.1", port=port, ca=ca, kubeconfig=b"kubeconfig")

    def create(self, spec: InstanceSpec, ca: tuple[bytes, bytes] | None) -> None:
        """Implements `Runtime.create`."""
        del ca
        (self._instances / spec.uid).touch()

    def delete(self, spec: InstanceSpec) -> None:
        """Implements `Runtime.delete`."""
        (self._instances / spec.uid).unlink(missing_ok=True)

    def ended(self) -> list[str]:
        """Implements `Runtime.ended`."""
        return []

    @property
    def _instances(self) -> Path:
        return self._folder / "instances"


def from_env(env: Mapping[str, str]) -> QuickRuntime:
    """The entry point."""
    return QuickRuntime(Path(env[_FOLDER]))


def installed(folder: Path, plane: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes this the runtime of processes that are started from now on. Returns the folder of the instances.

    `plane` is the folder of the control plane whose API server the instances have.
    """
    (folder / "instances").mkdir(parents=True)
    ca = local_control_plane.load_ca(plane)
    (folder / "ca.crt").write_bytes(ca.cert_pem)
    (folder / "ca.key").write_bytes(ca.key_pem)
    server = connect.inline_credentials(local_control_plane.kubeconfig(plane).read_bytes()).host
    (folder / "port").write_text(server.rpartition(":")[2])
    distribution = folder / "quick_runtime-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: quick-runtime\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{GROUP}]\n{_NAME} = {__name__}:{from_env.__name__}\n")
    root = str(Path(__file__).parents[2])  # of this module
    paths = [str(folder), root, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("KIND_RUNTIME", _NAME)
    monkeypatch.setenv(_FOLDER, str(folder))
    return folder / "instances"
