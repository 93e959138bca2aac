"""A management cluster on this machine: `Stack` starts its parts in order, and ends them in the opposite order.

All parts end with the process that started them, even if that is killed: each watches its parent, or the kernel does.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from functions import catalog
from infra import local_control_plane, object_store
from infra.local_control_plane import files
from infra.local_control_plane.processes import Process
from shared.charts import HelmMissing
from shared.kube import Client, connect

from . import crds, helm
from .functions_server import FunctionsServer
from .namespaces import Namespaces

STATE = "up.json"


class StackError(Exception):
    """A part could not be started; the message names the part and the reason."""


@dataclass(frozen=True)
class Urls:
    """The addresses of the parts."""

    api_server: str
    functions: str
    ingress: str
    """Accepts CloudEvents, and sends each to the functions that the event starts."""
    object_store: str


class Stack:
    """The parts of a local run.

    Args:
        directory: The folder of data, logs and kubeconfig.
        releases: The folder that releases are fetched from.
        progress: Called with each line of progress.
        profiles: Which functions get events (`shared.profiles`).
        get_helm: Whether to download or build a missing helm program. Only charts that read from the cluster need it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        releases: Path | None = None,
        progress: Callable[[str], None] = lambda _line: None,
        profiles: Collection[str] = ("all",),
        get_helm: bool = True,
    ) -> None:
        self.directory = directory.absolute()
        self._releases = releases
        self._progress = progress
        self._profiles = profiles
        self._store: object_store.ObjectStoreServer | None = None
        self.functions: FunctionsServer | None = None
        self._delivery: HttpDelivery | None = None
        self.forwarder: Forwarder | None = None
        self.client: Client | None = None
        self._namespaces: Namespaces | None = None
        self._get_helm = get_helm
        self._helm: helm.HelmInBackground | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the management cluster."""
        return self.directory / "management.kubeconfig"

    def start(self) -> Urls:
        """Starts all parts. Raises `StackError` after ending the parts that were started."""
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> Urls:
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        self._end_leftovers()
        self._store = object_store.start()
        try:
            plane = local_control_plane.start(
                self.directory / "management", owner=os.getpid(), progress=self._progress, timeout=90
            )
        except local_control_plane.ControlPlaneError as error:
            raise StackError(str(error)) from error
        files.write(self.kubeconfig, local_control_plane.kubeconfig(self.directory / "management").read_bytes())
        self._progress(f"API server ready at {plane.url}")
        self.client = connect.from_kubeconfig(str(self.kubeconfig))
        # The ingress listens before the functions start: its address is in their environment.
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        ingress = f"http://127.0.0.1:{listener.getsockname()[1]}"
        log = self.directory / "logs" / "functions.log"
        settings = self._settings(self._store.url, ingress)
        self.functions = FunctionsServer({**os.environ, **settings, **self.helm_program()}, log)
        self.functions.start()
        skipped = crds.install_missing(self.client, crds.load())
        self._progress("custom resources installed")
        for name, reason in skipped.items():
            self._progress(f"{name} is not replaced: {reason}")
        declared = catalog.triggers(profiles=self._profiles)
        self._delivery = HttpDelivery(self.functions.url)
        self.forwarder = Forwarder(self.client, declared, self._delivery, listener=listener)
        self.forwarder.start()
        self._namespaces = Namespaces(self._planes)
        self._namespaces.start()
        object_store.wait_ready(self._store.url)
        self._progress(f"functions at {self.functions.url}: {', '.join(declared)}")
        urls = Urls(plane.url, self.functions.url, ingress, self._store.url)
        me = Process.of(os.getpid())
        state = {
            "pid": os.getpid(),
            "started": me.started if me else 0,
            "kubeconfig": str(self.kubeconfig),
            **urls.__dict__,
            "settings": settings,
        }
        files.write(self.directory / STATE, json.dumps(state, indent=2) + "\n")
        return urls

    def stop(self) -> None:
        """Ends all parts that were started."""
        if self._helm is not None:
            self._helm.stop()
        if self.forwarder is not None:
            self.forwarder.stop()
        if self._delivery is not None:
            self._delivery.close()  # otherwise the functions' server waits for its idle connections
        if self.functions is not None:
            self.functions.close()
        if self._namespaces is not None:
            self._namespaces.stop()
        planes = self._planes()
        with ThreadPoolExecutor(len(planes)) as pool:
            list(pool.map(local_control_plane.stop, planes))
        if self._store is not None:
            self._store.stop()
        # Deleted last: as long as this file exists, a second run in this folder is refused.
        (self.directory / STATE).unlink(missing_ok=True)

    def wipe_object_store(self) -> None:
        """Replaces the object store by an empty one at the same address."""
        if self._store is None:
            raise StackError("the object store does not run")
        port = int(self._store.url.rpartition(":")[2])
        self._store.stop()
        self._store = object_store.start(port)

    def _planes(self) -> list[Path]:
        """Returns the directories of the control planes of the management cluster and the workload clusters."""
        workloads = (path for path in (self.directory / "clusters").glob("*") if path.is_dir())
        return [self.directory / "management", *workloads]

    def _end_leftovers(self) -> None:
        """Ends control planes that are left of a killed run. They end by themselves as well, but not at once."""
        for plane in self._planes():
            local_control_plane.stop(plane)

    def _settings(self, store: str, ingress: str) -> dict[str, str]:
        """Returns the environment variables of the functions."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "K_SINK": ingress,
            "S3_ENDPOINT_URL": store,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": "us-east-1",
            "RELEASE_SOURCE": self._releases.absolute().as_uri() if self._releases else "",
            "KIND_RUNTIME": "local",
            "CAPI_FUNCTIONS_PROFILES": ",".join(self._profiles),
            "CAPI_FUNCTIONS_DATA": str(self.directory),
            "CAPI_FUNCTIONS_OWNER": str(os.getpid()),
        }

    def helm_program(self) -> dict[str, str]:
        """Returns the environment variable with the path at which the functions find the helm program, now or later.

        Raises `StackError`.
        """
        try:
            found = helm.present()
        except HelmMissing as error:
            raise StackError(str(error)) from error
        if found is None and self._get_helm:
            self._helm = helm.HelmInBackground(self.directory / "bin" / "helm", self._progress)
            self._helm.start()
            found = self._helm.path
        return {"HELM": str(found)} if found else {}
