"""The runtime `local` of KINDClusters: kube-apiserver and etcd as processes of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from functions.kind_cluster.runtime import Instance, InstanceSpec, RuntimeUnavailable
from infra import local_control_plane
from infra.local_control_plane import files, store
from infra.local_control_plane.binaries import BinaryNotFound, locate
from infra.local_control_plane.selectors import parse_selector, parse_version
from shared.semver import Version


class LocalRuntime:
    """Runs each instance in `<directory>/<uid>`; all end with the process whose pid is `owner`, if that is not None."""

    def __init__(self, directory: Path, owner: int | None) -> None:
        self._directory = directory
        self._owner = owner

    def inspect(self, spec: InstanceSpec) -> Instance:
        """Implements `Runtime.inspect`."""
        folder = spec.folder(self._directory)
        status = local_control_plane.status(folder)
        if status.phase == "ready":
            try:
                ca = local_control_plane.load_ca(folder)
                kubeconfig = local_control_plane.kubeconfig(folder).read_bytes()
            except (local_control_plane.ControlPlaneError, OSError) as error:
                raise RuntimeUnavailable(str(error)) from error
            return Instance(
                "ready",
                host=status.host,
                port=status.port,
                ca=(ca.cert_pem, ca.key_pem),
                kubeconfig=kubeconfig,
                version=str(_parsed(files.tail(self._record(spec))) or _version()),
            )
        if status.phase in ("starting", "failed"):
            return Instance(status.phase, status.error, reason="ControlPlaneFailed" if status.error else "")
        return Instance("absent")

    def create(self, spec: InstanceSpec, ca: tuple[bytes, bytes] | None) -> None:
        """Implements `Runtime.create`."""
        from shared.certificates import CertificateAuthority  # loads slowly, and only a start needs it

        folder = spec.folder(self._directory)
        try:
            runs = local_control_plane.status(folder).phase in ("starting", "ready")
            local_control_plane.start(
                folder,
                ca=CertificateAuthority.load(*ca) if ca else None,
                owner=self._owner,
                wait=False,
                kubernetes_version="" if runs else self._choose_version(spec),
            )
        except (local_control_plane.ControlPlaneError, BinaryNotFound, OSError, ValueError) as error:
            raise RuntimeUnavailable(str(error)) from error

    def delete(self, spec: InstanceSpec) -> None:
        """Implements `Runtime.delete`."""
        try:
            local_control_plane.remove(spec.folder(self._directory))
            self._record(spec).unlink(missing_ok=True)
        except (local_control_plane.ControlPlaneError, OSError) as error:
            raise RuntimeUnavailable(str(error)) from error

    def ended(self) -> list[str]:
        """Implements `Runtime.ended`."""
        folders = [path for path in self._directory.glob("*") if path.is_dir()]
        return [path.name for path in folders if local_control_plane.status(path).phase in ("failed", "stopped")]

    def _choose_version(self, spec: InstanceSpec) -> str:
        """Returns the version to start, "" for the default, and records it before data of that version are written.

        An instance keeps its version. If that version is gone, a newer version follows, never an older one.
        """
        record, usual = self._record(spec), _parsed(_version())
        recorded = _parsed(files.tail(record))
        if recorded is None:
            version = _installed(str(spec.fields.get("kubernetesVersion") or ""))
        elif usual and (recorded == usual or (recorded < usual and recorded not in store.installed())):
            version = ""
        else:
            return str(recorded)
        record.parent.mkdir(parents=True, exist_ok=True)
        files.write(record, version or str(usual or ""))
        return version

    def _record(self, spec: InstanceSpec) -> Path:
        """Returns the file with the version of an instance, beside its folder, which is created by the start."""
        folder = spec.folder(self._directory)
        return folder.with_name(f"{folder.name}.kubernetes-version")


def _installed(minor: str) -> str:
    """Returns the newest installed version of a minor version such as "1.35"; "" for the default version."""
    if not minor or f"{_version().removeprefix('v')}.".startswith(f"{minor}."):
        return ""
    newest = parse_selector(minor).newest(store.installed())
    return str(newest or "")


def _parsed(text: str) -> Version | None:
    try:
        return parse_version(text)
    except ValueError:
        return None


@cache
def _version() -> str:
    """Returns the version of the API servers that are started here; "" if their program is gone."""
    try:
        program = locate(["kube-apiserver"], progress=lambda _line: None)["kube-apiserver"]
        output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
    except (BinaryNotFound, OSError, subprocess.TimeoutExpired):
        return ""
    return output.strip().removeprefix("Kubernetes ")


def from_env(env: Mapping[str, str]) -> LocalRuntime:
    """Returns the runtime whose instances live in `$CAPI_FUNCTIONS_DATA/clusters` and end with `$CAPI_FUNCTIONS_OWNER`.

    The entry point `local` of the group `capi_functions.kind_runtimes`.
    """
    owner = env.get("CAPI_FUNCTIONS_OWNER", "")
    data = Path(env.get("CAPI_FUNCTIONS_DATA") or Path.home() / ".capi-functions")
    return LocalRuntime(data / "clusters", int(owner) if owner.isdigit() else None)
