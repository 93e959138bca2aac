"""The port to what really runs a cluster, and the runtime `local`: kube-apiserver and etcd as processes.

An instance belongs to one KINDCluster by its uid, so that no other cluster of the same name is ever adopted or
deleted, and a function that died half-way finds what it started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class Instance:
    """A cluster as its runtime sees it; endpoint, CA (certificate, key) and admin kubeconfig once it is ready."""

    phase: Literal["absent", "starting", "ready", "failed"]
    error: str = ""
    host: str = ""
    port: int = 0
    authority: tuple[bytes, bytes] = (b"", b"")
    kubeconfig: bytes = b""


class RuntimeProblem(Exception):
    """The runtime cannot be used; the message says why and what to do."""


class Runtime(Protocol):
    """Every call returns soon: creation goes on by itself, and `inspect` tells how far it is."""

    def inspect(self, uid: str) -> Instance: ...

    def create(self, uid: str, authority: tuple[bytes, bytes] | None) -> None:
        """Starts (or starts again) the instance; `authority` is a CA that the user brought."""

    def delete(self, uid: str) -> None:
        """Ends and removes the instance; one that is not there is fine."""


class Local:
    """Control planes as local processes, in `<directory>/<uid>`; they end with the process `owner`."""

    def __init__(self, directory: Path, owner: int | None) -> None:
        self._directory = directory
        self._owner = owner

    def inspect(self, uid: str) -> Instance:
        from infra import local_control_plane

        folder = self._folder(uid)
        status = local_control_plane.status(folder)
        if status.phase == "ready":
            try:
                authority = local_control_plane.authority(folder)
                kubeconfig = local_control_plane.kubeconfig(folder).read_bytes()
            except (local_control_plane.ControlPlaneError, OSError) as error:
                raise RuntimeProblem(str(error)) from error
            return Instance(
                "ready",
                host=status.host,
                port=status.port,
                authority=(authority.cert_pem, authority.key_pem),
                kubeconfig=kubeconfig,
            )
        if status.phase in ("starting", "failed"):
            return Instance(status.phase, status.error)
        return Instance("absent")

    def create(self, uid: str, authority: tuple[bytes, bytes] | None) -> None:
        from infra import local_control_plane
        from infra.local_control_plane.binaries import BinaryNotFound
        from shared.certificates import Authority

        try:
            local_control_plane.start(
                self._folder(uid),
                ca=Authority.load(*authority) if authority else None,
                owner=self._owner,
                wait=False,
            )
        except (local_control_plane.ControlPlaneError, BinaryNotFound, ValueError) as error:
            raise RuntimeProblem(str(error)) from error

    def delete(self, uid: str) -> None:
        from infra import local_control_plane

        try:
            local_control_plane.remove(self._folder(uid))
        except local_control_plane.ControlPlaneError as error:
            raise RuntimeProblem(str(error)) from error

    def _folder(self, uid: str) -> Path:
        if not uid or not all(char.isalnum() or char == "-" for char in uid):
            raise RuntimeProblem(f"uid {uid!r} cannot name a folder")
        return self._directory / uid


def from_env(env: Mapping[str, str] = os.environ) -> Runtime:
    """The runtime that `KIND_RUNTIME` names (`local`); `CAPI_FUNCTIONS_DATA` is where its instances live.

    In a pod none is the default: what it starts would end with the pod, and nobody else would reach it.
    """
    name = env.get("KIND_RUNTIME", "")
    if not name and env.get("KUBERNETES_SERVICE_HOST"):
        raise RuntimeProblem(
            "the control plane of a KINDCluster is processes of one machine, which a pod cannot have: "
            "have the Cluster refer to the infrastructure object of a provider, or use `capi-functions up` on a machine"
        )
    if name not in ("", "local"):
        raise RuntimeProblem(f"KIND_RUNTIME={name}: the only runtime is 'local'")
    owner = env.get("CAPI_FUNCTIONS_OWNER", "")
    data = Path(env.get("CAPI_FUNCTIONS_DATA") or Path.home() / ".capi-functions")
    return Local(data / "clusters", int(owner) if owner.isdigit() else None)
