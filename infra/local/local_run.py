"""A management cluster on this machine: `LocalRun` starts its parts in order, and ends them in the opposite order.

All parts end with the process that started them, even if it is killed, because each part, or the kernel, watches the
parent.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from infra import local_control_plane
from infra.local_control_plane import files, variables
from infra.local_control_plane.processes import Process
from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT, KIND_CLUSTER
from shared.charts import HelmMissing
from shared.kube import ApiError, Client, Object, connect, dig
from shared.network import ALLOWED

from . import crds, helm, kind_clusters
from .components_server import ComponentsServer
from .managers import Managers
from .namespaces import Namespaces
from .services import KIND_CLUSTERS, Services, store_in

STATE = "up.json"
PLANE = "management"
TOKEN = "token"  # noqa: S105 - the name of a file


_DATA = (PLANE, "clusters", Managers.FOLDER, "kind", "store", "logs", "management.kubeconfig", "options.json", TOKEN)
"""Folders and files that a run keeps for the next start. Executables in `bin` are no data."""


class LocalRunError(Exception):
    """A part could not be started; the message names the part and the reason."""


@dataclass(frozen=True)
class Urls:
    """The addresses of the parts."""

    api_server: str
    functions: str
    ingress: str
    """Accepts CloudEvents, and sends each to the functions that it starts."""


def data_of(directory: Path) -> list[Path]:
    """Returns the folders and files that runs have left in a folder."""
    return [path for name in _DATA if (path := directory / name).exists() or path.is_symlink()]


def reset(directory: Path) -> None:
    """Deletes the data of a run that has ended, and nothing else in its folder.

    Raises `LocalRunError` if something cannot be deleted, such as a link in place of a folder.
    """
    try:
        for plane in (directory / PLANE, *(directory / "clusters").glob("*")):
            local_control_plane.stop(plane)  # of a run that has crashed
        for path in data_of(directory):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (directory / STATE).unlink(missing_ok=True)
    except (OSError, local_control_plane.ControlPlaneError) as error:
        raise LocalRunError(f"the data in {directory} cannot be deleted: {error}") from error


class LocalRun:
    """The parts of a local run.

    Args:
        directory: The folder of data, logs and kubeconfig.
        releases: The folder that releases are fetched from.
        progress: Called with each line of progress.
        profiles: Which functions get events (`shared.profiles`).
        get_helm: Whether to download or build a missing helm program. Only charts that read from the cluster need it.
        components: A folder with components of providers, laid out like the downloads of GitHub, to use instead.
        partial_components: Whether GitHub has all other components.
        kind: Whether KINDClusters may be containers of this machine.
        ip_family: That of the management cluster and of managers, see `local_control_plane.start`.
        api_server_flags: More flags of the management cluster's API server, see `local_control_plane.start`.
        etcd_flags: More flags of its etcd.
    """

    def __init__(
        self,
        directory: Path,
        *,
        releases: Path | None = None,
        progress: Callable[[str], None] = lambda _line: None,
        profiles: Collection[str] = ("all",),
        get_helm: bool = True,
        components: Path | None = None,
        partial_components: bool = False,
        kind: bool = False,
        ip_family: str = "",
        api_server_flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
    ) -> None:
        self.directory = directory.absolute()
        self.plane = self.directory / PLANE
        """The folder of the control plane of the management cluster."""
        self.kubeconfig = self.directory / "management.kubeconfig"
        """The kubeconfig of the management cluster."""
        self.store = self.directory / "store"
        """The folder with releases and components, which is empty at the start of a run."""
        self._releases = releases
        self._progress = progress
        self.services = Services(self.directory / "logs" / "functions.log", self.directory / TOKEN, profiles)
        self.client: Client | None = None
        self._namespaces: Namespaces | None = None
        self._get_helm = get_helm
        self._components = ComponentsServer(components, partial=partial_components) if components else None
        self._ip_family = ip_family
        self._api_server_flags, self._etcd_flags = api_server_flags, etcd_flags
        self._kind = kind
        self._helm = helm.HelmProgram(self.directory / "bin" / "helm", progress)
        self._managers: Managers | None = None

    @staticmethod
    def has_managers(directory: Path) -> bool:
        """Returns whether managers of providers have run in a folder, and will run again."""
        return (directory / Managers.FOLDER).is_dir()

    def start(self, prepare: Callable[[], None] = lambda: None) -> Urls:
        """Starts all parts, then calls `prepare`, before the run counts as up.

        Raises `LocalRunError` after ending the parts that were started.
        """
        try:
            return self._start(prepare)
        except BaseException as error:
            self.stop()
            plane = local_control_plane.status(self.plane)
            if isinstance(error, ApiError) and plane.phase == "failed":
                raise LocalRunError(f"the control plane in {self.plane} has ended: {plane.error}") from error
            raise

    def _start(self, prepare: Callable[[], None]) -> Urls:
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        self._end_leftovers()
        shutil.rmtree(self.store, ignore_errors=True)  # so that a tag may have other content than in the last run
        try:
            plane = local_control_plane.start(
                self.plane,
                owner=os.getpid(),
                progress=self._progress,
                timeout=variables.start_timeout(90),
                ip_family=self._ip_family,
                api_server_flags=self._api_server_flags,
                etcd_flags=self._etcd_flags,
            )
        except local_control_plane.ControlPlaneError as error:
            raise LocalRunError(str(error)) from error
        files.write(self.kubeconfig, local_control_plane.kubeconfig(self.plane).read_bytes())
        self._progress(f"API server ready at {plane.url}")
        self.client = connect.from_kubeconfig(str(self.kubeconfig))
        components = self._components.start() if self._components else {}
        settings = self.services.start_functions({**components, **self._settings(), **self.helm_program()})
        settings.pop("HELM", None)  # the commands find the program themselves
        skipped = crds.install_missing(self.client, self._crds())
        self._progress("custom resources installed")
        for name, reason in skipped.items():
            self._progress(f"{name} is not replaced: {reason}")
        self.services.start_forwarder(self.client)
        self._namespaces = Namespaces(self._planes)
        self._namespaces.start()
        self._managers = Managers(self.plane, self.directory, self.client, self._progress)
        self._managers.start()
        if next(self.client.list(DEPLOYMENT, selector=PROVIDER_LABEL), None):
            self._managers.look()
        functions = self.services.functions.url if self.services.functions else ""
        self._progress(f"functions at {functions}: {', '.join(self.services.declared)}")
        prepare()
        urls = Urls(plane.url, functions, self.services.ingress)
        me = Process.of(os.getpid())
        state = {
            "pid": os.getpid(),
            "started": me.started if me else 0,
            "kubeconfig": str(self.kubeconfig),
            **urls.__dict__,
            "token": str(self.directory / TOKEN),
            "settings": settings,
        }
        files.write(self.directory / STATE, json.dumps(state, indent=2) + "\n")
        return urls

    def _crds(self) -> list[Object]:
        """Returns the CRDs, without KINDClusters if no function serves these, because nobody would report on them."""
        serves = KIND_CLUSTERS in self.services.declared
        return [crd for crd in crds.load() if serves or dig(crd, "spec.group") != KIND_CLUSTER.group]

    def run_managers(self) -> Managers:
        """Runs the managers of providers from now on, including providers that are installed later."""
        if self._managers is None:
            raise RuntimeError("the run was not started")
        self._managers.look()
        return self._managers

    def stop(self) -> None:
        """Ends all parts that were started."""
        self._helm.stop()
        self.services.stop()
        if self._components is not None:
            self._components.stop()
        if self._managers is not None:
            self._managers.stop()
        if self._namespaces is not None:
            self._namespaces.stop()
        planes = self._planes()
        with ThreadPoolExecutor(len(planes)) as pool:
            list(pool.map(local_control_plane.stop, planes))
        # Deleted last: as long as this file exists, a second run in this folder is refused.
        (self.directory / STATE).unlink(missing_ok=True)

    def _planes(self) -> list[Path]:
        """Returns the directories of the control planes of the management cluster and the workload clusters."""
        workloads = (path for path in (self.directory / "clusters").glob("*") if path.is_dir())
        return [self.plane, *workloads]

    def _end_leftovers(self) -> None:
        """Ends control planes of a killed run at once. Otherwise they would end by themselves a moment later."""
        for plane in self._planes():
            local_control_plane.stop(plane)

    def _settings(self) -> dict[str, str]:
        """Returns the environment variables of the functions."""
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        return {
            "KUBECONFIG": str(self.kubeconfig),
            **store_in(self.store),
            "RELEASE_SOURCE": self._releases.absolute().as_uri() if self._releases else "",
            **kind_clusters.setting(allowed=self._kind, local=True),
            # All servers of a local run are on loopback, which is refused where the local run is in a pod.
            ALLOWED: " ".join(filter(None, (os.environ.get(ALLOWED), "127.0.0.0/8", "::1/128"))),
            "CAPI_FUNCTIONS_DATA": str(self.directory),
            "CAPI_FUNCTIONS_OWNER": str(os.getpid()),
            # For `provider init --managers`, because a package may be the only place of the managers.
            **({"KUBEBUILDER_ASSETS": str(Path(assets).absolute())} if assets else {}),
        }

    def helm_program(self) -> dict[str, str]:
        """Returns the environment variable with the path of the helm program. Raises `LocalRunError`."""
        try:
            return self._helm.setting(get=self._get_helm)
        except HelmMissing as error:
            raise LocalRunError(str(error)) from error
