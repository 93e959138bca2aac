"""Runs a control plane, kube-apiserver with etcd, during a `with` block; adds users and installs CRDs.

from infra.local_control_plane import ControlPlane

with ControlPlane() as plane:
    subprocess.run(["kubectl", "--kubeconfig", plane.kubeconfig, "get", "namespaces"], check=True)
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from infra.local_control_plane import instance
from infra.local_control_plane.instance import ControlPlaneError, Status


class ControlPlane:
    """A kube-apiserver with etcd. It ends when the `with` block ends, and at the latest when this process ends.

    Args:
        directory: The directory of the instance. Its data are kept for the next start. By default it is a temporary
            directory, which is deleted at the end of the block.
        controllers: Whether to run kube-controller-manager, kube-scheduler and kwok too.
        progress: Called with each line of progress, for example while the executables are downloaded.
        timeout: Seconds until the API server must be ready.
        kubernetes_version: A selector of versions, such as "1.36" (default: the pinned version).
        ip_family: "ipv4" or "ipv6" (default: that of the instance, for a new one "ipv4").
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        controllers: bool = False,
        progress: Callable[[str], None] | None = None,
        timeout: float = 60.0,
        kubernetes_version: str = "",
        ip_family: str = "",
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="control-plane-") if directory is None else None
        self.directory = Path(self._temporary.name, "plane") if self._temporary else Path(directory or "").absolute()
        self._controllers = controllers
        self._progress = progress
        self._timeout = timeout
        self._kubernetes_version = kubernetes_version
        self._ip_family = ip_family

    def __enter__(self) -> "ControlPlane":
        """Starts the control plane. Raises ControlPlaneError or BinaryNotFound."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the control plane, and deletes its directory if that is a temporary one."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    def start(self) -> Status:
        """Starts the control plane unless it runs. Raises ControlPlaneError or BinaryNotFound."""
        return instance.start(
            self.directory,
            owner=os.getpid(),
            progress=self._progress,
            timeout=self._timeout,
            controllers=self._controllers,
            kubernetes_version=self._kubernetes_version,
            ip_family=self._ip_family,
        )

    def stop(self) -> None:
        """Ends all processes; the data stay. Does nothing if none runs. Raises ControlPlaneError."""
        instance.stop(self.directory)

    def restart(self) -> Status:
        """Ends all processes and starts them again, at the same address and with the same data."""
        self.stop()
        return self.start()

    @property
    def status(self) -> Status:
        """The phase of the control plane, and its address."""
        return instance.status(self.directory)

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.status.url

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator. It exists once the control plane is ready."""
        return instance.kubeconfig(self.directory)

    def add_user(self, name: str, groups: Iterable[str] = ()) -> Path:
        """Issues a certificate for a user with these groups, and returns the path of the user's kubeconfig.

        The user has only the rights that RBAC grants. Raises ControlPlaneError if the control plane was never ready,
        ValueError for the name `admin`, and for a name that is not a file name or begins with a dot.
        """
        return instance.add_user(self.directory, name, groups)

    def install_crds(self, *sources: Path | str | Mapping[str, Any]) -> None:
        """Applies CustomResourceDefinitions, and returns once their kinds are served.

        Args:
            sources: Objects, YAML files, or folders of YAML files. Other objects in the files are ignored.

        Raises:
            ControlPlaneError: A source does not exist, or contains no definition.
            ApiError: The API server rejects a definition.
            TimeoutError: A definition is not established in time.
            YAMLError: A file is not valid YAML.
        """
        from shared.kube import connect
        from shared.kube.crds import install_definitions

        found = [crd for source in sources for crd in _definitions(source)]
        client = connect.from_kubeconfig(str(self.kubeconfig))
        try:
            install_definitions(client, found, manager="local-control-plane")
        finally:
            client.close()


def _definitions(source: Path | str | Mapping[str, Any]) -> list[dict[str, Any]]:
    if isinstance(source, Mapping):
        return [dict(source)]
    from shared import bounded_yaml
    from shared.kube.crds import definitions

    path = Path(source)
    if not path.exists():
        raise ControlPlaneError(f"{path} does not exist")
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    found = [crd for file in files for crd in definitions(bounded_yaml.load_all(file.read_text()))]
    if not found:
        raise ControlPlaneError(f"{path} contains no CustomResourceDefinition")
    return found
