"""A whole management cluster on this machine: `Stack` starts its parts in order and ends them in the opposite one.

Everything ends with the process that started it, however that ends: the servers watch it or are told by the kernel.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
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
    """A part could not be started; the message says which and why."""


@dataclass(frozen=True)
class Urls:
    api_server: str
    functions: str
    ingress: str
    """Takes CloudEvents and sends each to the functions that it concerns."""
    object_store: str


class Stack:
    """The parts of a local run in `directory`. `releases` is the folder that releases are fetched from.

    `get_helm`: get the helm program if it is not here; only charts that ask about the cluster need it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        releases: Path | None = None,
        progress: Callable[[str], None] = lambda _line: None,
        get_helm: bool = True,
    ) -> None:
        self.directory = directory.absolute()
        self._releases = releases
        self._progress = progress
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
        return self.directory / "management.kubeconfig"

    def start(self) -> Urls:
        """Raises `StackError`, after ending what had been started."""
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
        # The ingress listens before the functions start, since they are told where it is.
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        ingress = f"http://127.0.0.1:{listener.getsockname()[1]}"
        log = self.directory / "logs" / "functions.log"
        settings = self._settings(self._store.url, ingress)
        self.functions = FunctionsServer({**os.environ, **settings, **self.helm_program()}, log)
        self.functions.start()
        left_alone = crds.install_missing(self.client, crds.load())
        self._progress("custom resources installed")
        for name, reason in left_alone.items():
            self._progress(f"{name} is left as it is: {reason}")
        self._delivery = HttpDelivery(self.functions.url)
        self.forwarder = Forwarder(self.client, catalog.triggers(), self._delivery, listener=listener)
        self.forwarder.start()
        self._namespaces = Namespaces(self._planes)
        self._namespaces.start()
        object_store.wait_ready(self._store.url)
        self._progress(f"functions at {self.functions.url}: {', '.join(catalog.names())}")
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
        """Ends everything; what was not started is passed over."""
        if self._helm is not None:
            self._helm.stop()
        if self.forwarder is not None:
            self.forwarder.stop()
        if self._delivery is not None:
            self._delivery.close()  # the functions' server waits for idle connections otherwise
        if self.functions is not None:
            self.functions.close()
        if self._namespaces is not None:
            self._namespaces.stop()
        planes = self._planes()
        with ThreadPoolExecutor(len(planes)) as pool:
            list(pool.map(local_control_plane.stop, planes))
        if self._store is not None:
            self._store.stop()
        # Last: while it is there, a second run in this folder is refused.
        (self.directory / STATE).unlink(missing_ok=True)

    def wipe_object_store(self) -> None:
        """Replaces the object store by an empty one at the same address."""
        if self._store is None:
            raise StackError("the object store does not run")
        port = int(self._store.url.rpartition(":")[2])
        self._store.stop()
        self._store = object_store.start(port)

    def _planes(self) -> list[Path]:
        """Those of the management cluster and the workload clusters."""
        workloads = (path for path in (self.directory / "clusters").glob("*") if path.is_dir())
        return [self.directory / "management", *workloads]

    def _end_leftovers(self) -> None:
        """A former run that was killed may have left its planes for a moment."""
        for plane in self._planes():
            local_control_plane.stop(plane)

    def _settings(self, store: str, ingress: str) -> dict[str, str]:
        """The environment variables of the functions."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "K_SINK": ingress,
            "S3_ENDPOINT_URL": store,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": "us-east-1",
            "RELEASE_SOURCE": self._releases.absolute().as_uri() if self._releases else "",
            "KIND_RUNTIME": "local",
            "CAPI_FUNCTIONS_DATA": str(self.directory),
            "CAPI_FUNCTIONS_OWNER": str(os.getpid()),
        }

    def helm_program(self) -> dict[str, str]:
        """Where the functions find the helm program, or will find it in a while. Raises `StackError`."""
        try:
            found = helm.present()
        except HelmMissing as error:
            raise StackError(str(error)) from error
        if found is None and self._get_helm:
            self._helm = helm.HelmInBackground(self.directory / "bin" / "helm", self._progress)
            self._helm.start()
            found = self._helm.path
        return {"HELM": str(found)} if found else {}
