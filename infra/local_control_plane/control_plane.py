"""Runs a control plane, kube-apiserver with etcd, during a `with` block; adds users, CRDs and webhooks.

from infra.local_control_plane import ControlPlane

with ControlPlane() as plane:
    subprocess.run(["kubectl", "--kubeconfig", plane.kubeconfig, "get", "namespaces"], check=True)
"""

import base64
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from infra.local_control_plane import existing, instance, variables
from infra.local_control_plane.attached_output import AttachedOutput
from infra.local_control_plane.controllers import NODES
from infra.local_control_plane.instance import ControlPlaneError, Status

if TYPE_CHECKING:
    from shared.kube import Client

_FIELD_MANAGER = "local-control-plane"
_SUFFIXES = (".json", ".yaml", ".yml")
"""The suffixes of the files that are read in a folder, as in kubectl and envtest."""


class ControlPlane:
    """A kube-apiserver with etcd. It ends when the `with` block ends, and at the latest when this process ends.

    Args:
        directory: The directory of the instance. Its data are kept for the next start. By default it is a temporary
            directory, which is deleted at the end of the block.
        controllers: Whether to run kube-controller-manager, kube-scheduler and kwok too.
        nodes: The number of nodes of kwok, which implies `controllers` (default with controllers: 2).
        progress: Called with each line of progress, for example while the executables are downloaded.
        timeout: Seconds until the API server must be ready (default: $KUBEBUILDER_CONTROLPLANE_START_TIMEOUT, else 60).
        kubernetes_version: A selector of versions, such as "1.36" (default: the pinned version).
        ip_family: "ipv4" or "ipv6" (default: the instance's family, for a new one "ipv4").
        etcd_flags: Flags for etcd, such as "quota-backend-bytes=8589934592", in place of flags of the same name.
        api_server_flags: Flags for the API server, such as "feature-gates=MutatingAdmissionPolicy=true".
        use_existing: Whether the cluster of $KUBECONFIG, or of ~/.kube/config, takes the place of a control plane,
            which is not started then (default: whether $USE_EXISTING_CLUSTER is true).
        attach_output: Whether the logs of etcd and the API server are written to the standard error, too (default:
            whether $KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT is true).
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        controllers: bool = False,
        nodes: int | None = None,
        progress: Callable[[str], None] | None = None,
        timeout: float | None = None,
        kubernetes_version: str = "",
        ip_family: str = "",
        etcd_flags: Sequence[str] = (),
        api_server_flags: Sequence[str] = (),
        use_existing: bool | None = None,
        attach_output: bool | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="control-plane-") if directory is None else None
        self.directory = Path(self._temporary.name, "plane") if self._temporary else Path(directory or "").absolute()
        self._controllers = controllers or nodes is not None
        self._nodes = NODES if nodes is None else nodes
        self._progress = progress
        self._timeout = timeout
        self._kubernetes_version = kubernetes_version
        self._ip_family = ip_family
        self._etcd_flags, self._api_server_flags = etcd_flags, api_server_flags
        self._uses_existing = variables.uses_existing_cluster() if use_existing is None else use_existing
        attaches = variables.attaches_output() if attach_output is None else attach_output
        self._output = AttachedOutput(self.directory) if attaches and not self._uses_existing else None

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
        """Starts the control plane unless it runs, or an existing cluster takes its place.

        Raises ControlPlaneError, BinaryNotFound, or ValueError if `kubernetes_version` is no selector.
        """
        if self._uses_existing:
            return self.status
        if self._output:
            self._output.start()
        return instance.start(
            self.directory,
            owner=os.getpid(),
            progress=self._progress,
            timeout=self._timeout,
            controllers=self._controllers,
            nodes=self._nodes,
            kubernetes_version=self._kubernetes_version,
            ip_family=self._ip_family,
            etcd_flags=self._etcd_flags,
            api_server_flags=self._api_server_flags,
        )

    def stop(self) -> None:
        """Ends all processes; the data stay. Does nothing if none runs. Raises ControlPlaneError."""
        try:
            if not self._uses_existing:
                instance.stop(self.directory)
        finally:
            if self._output:
                self._output.stop()

    def restart(self) -> Status:
        """Ends all processes and starts them again, at the same address and with the same data."""
        self.stop()
        return self.start()

    @property
    def status(self) -> Status:
        """The phase of the control plane, and its address. Raises ControlPlaneError without the existing cluster."""
        return existing.status() if self._uses_existing else instance.status(self.directory)

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.status.url

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, or of the existing cluster. It exists once the control plane is ready."""
        return existing.kubeconfig() if self._uses_existing else instance.kubeconfig(self.directory)

    def add_user(self, name: str, groups: Iterable[str] = ()) -> Path:
        """Issues a certificate for a user with these groups, and returns the path of the user's kubeconfig.

        The user has only the rights that RBAC grants. Raises ControlPlaneError if the control plane was never ready,
        ValueError for the name `admin`, and for a name that is not a file name or begins with a dot.
        """
        if self._uses_existing:
            raise ControlPlaneError(
                f"an existing cluster ({existing.kubeconfig()}) is used, which issues no certificates"
            )
        return instance.add_user(self.directory, name, groups)

    def install_crds(self, *sources: Path | str | Mapping[str, Any]) -> None:
        """Applies CustomResourceDefinitions, and returns once their kinds are served.

        Args:
            sources: Objects, files of YAML or JSON, or folders of such files. Other objects in the files are ignored.

        Raises:
            ControlPlaneError: A source does not exist, or contains no definition.
            ApiError: The API server rejects a definition.
            TimeoutError: A definition is not established in time.
            YAMLError: A file is not valid YAML.
        """
        from shared.kube.crds import CRD, install_definitions

        found = [crd for source in sources for crd in _objects(source, (CRD.kind,))]
        with self._client() as client:
            install_definitions(client, found, manager=_FIELD_MANAGER)

    def webhook_certificates(self) -> Path:
        """Issues a certificate for a server of webhooks at localhost, and returns the folder of tls.crt and tls.key.

        Raises ControlPlaneError if the control plane was never ready.
        """
        if self._uses_existing:
            instance.create_ca(self.directory)
        return instance.issue_webhook_certificates(self.directory)

    def install_webhooks(self, *sources: Path | str | Mapping[str, Any], url: str) -> None:
        """Applies webhook configurations, and CRDs, with a server at `url` in the place of Services.

        The API server calls webhooks, also those that convert CRDs, over TLS with the certificate of
        `webhook_certificates`. It may take a second until it calls new ones.

        Args:
            sources: Objects, files of YAML or JSON, or folders of such files. Objects of other kinds in the files are
                ignored.
            url: The scheme, host and port of the server, such as `https://localhost:9443`.

        Raises:
            ControlPlaneError: A source does not exist, or contains no such object.
            ApiError: The API server rejects an object.
            TimeoutError: A definition is not established in time.
            YAMLError: A file is not valid YAML.
        """
        from shared.api.resources import WEBHOOK_CONFIGURATIONS
        from shared.components.certificates import with_ca_bundle
        from shared.components.webhooks import with_webhooks_at
        from shared.kube.crds import CRD, install_definitions

        configurations = {resource.kind: resource for resource in WEBHOOK_CONFIGURATIONS}
        if self._uses_existing:
            instance.create_ca(self.directory)
        ca = base64.b64encode(instance.load_ca(self.directory).cert_pem).decode()
        given = [obj for source in sources for obj in _objects(source, (CRD.kind, *configurations))]
        found = [with_ca_bundle(obj, ca) for obj in with_webhooks_at(given, url)]
        with self._client() as client:
            install_definitions(client, [obj for obj in found if obj["kind"] == CRD.kind], manager=_FIELD_MANAGER)
            for obj in found:
                if resource := configurations.get(obj["kind"]):
                    client.apply(resource, obj, manager=_FIELD_MANAGER)

    def _client(self) -> "AbstractContextManager[Client]":
        from shared.kube import connect

        return closing(connect.from_kubeconfig(str(self.kubeconfig)))


def _objects(source: Path | str | Mapping[str, Any], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the objects of these kinds. Raises ControlPlaneError."""
    if isinstance(source, Mapping):
        return [dict(source)]
    from shared import bounded_yaml

    path = Path(source)
    if not path.exists():
        raise ControlPlaneError(f"{path} does not exist")
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    documents: list[Any] = []
    for file in files:
        try:
            documents += bounded_yaml.load_all(file.read_text())
        except (bounded_yaml.YAMLError, UnicodeDecodeError) as error:
            raise ControlPlaneError(f"{file} is not valid YAML: {error}") from error
    found = [each for each in documents if isinstance(each, dict) and each.get("kind") in kinds]
    if not found:
        raise ControlPlaneError(f"{path} contains no {' or '.join(kinds)}")
    return found
