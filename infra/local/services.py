"""Runs the functions for a management cluster on this machine, with the forwarder, and a folder for releases.

The functions are a child process, which ends with this process even if it is killed. The forwarder runs in threads of
this process.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from functions import catalog
from functions.kind_cluster import runtime
from infra.local_control_plane import files
from shared import tracing
from shared.event import Event
from shared.kube import Client
from shared.runtime import callers

from .functions_server import FunctionsServer
from .instances import Instances

KIND_CLUSTERS = "kind_cluster"
_POLL_SECONDS = {"local": 0.25, "kind": 2.0}
"""Seconds between two searches for ended instances, by runtime; `local` reads files, `kind` runs a program."""


class Services:
    """The functions and the forwarder, started one by one in this order.

    Args:
        log: The log file of the functions.
        token: The file for the run's token, which functions and ingress require of senders. It is new at each start, so
            that other programs of this machine and web pages cannot send events.
        profiles: The profiles of the functions that receive events (`shared.profiles`).
        without: The names of functions that receive no events.
    """

    def __init__(
        self, log: Path, token: Path, profiles: Collection[str] = ("all",), without: Collection[str] = ()
    ) -> None:
        self._log = log
        self._token = token.absolute()
        self._profiles = tuple(profiles)
        self.declared = catalog.triggers(without, profiles)
        """The triggers of the functions that receive events, by name of the function."""
        self._listener: socket.socket | None = None
        self._delivery: HttpDelivery | None = None
        self.functions: FunctionsServer | None = None
        self.forwarder: Forwarder | None = None
        self._instances: Instances | None = None
        self._environment: Mapping[str, str] = {}

    def start_functions(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Starts the functions, without waiting for them.

        Returns the environment variables of the functions: `settings`, the address of the ingress, the profiles, and
        the path of the token.
        """
        # The ingress listens before the functions start, because its address is in their environment.
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        files.write(self._token, secrets.token_urlsafe(32))
        added = {
            "K_SINK": self.ingress,
            "CAPI_FUNCTIONS_PROFILES": ",".join(self._profiles),
            callers.TOKEN_FILE: str(self._token),
        }
        self.functions = FunctionsServer({**os.environ, **settings, **added}, self._log)
        self.functions.start()
        self._environment = {**os.environ, **settings, **added}
        return {**settings, **added}

    @property
    def ingress(self) -> str:
        """The URL that accepts CloudEvents, and delivers each to the functions whose triggers match."""
        if self._listener is None:
            raise RuntimeError("the functions were not started")
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def start_forwarder(self, client: Client, namespace: str = "") -> None:
        """Starts watching the cluster of `client`, or only `namespace`, and delivering events to the functions."""
        if self.functions is None:
            raise RuntimeError("the functions were not started")
        tracing.set_up(self._environment)
        self._delivery = HttpDelivery(self.functions.url, token=self._token)
        self.forwarder = Forwarder(
            client, self.declared, self._delivery, listener=self._listener, token=self._token, namespace=namespace
        )
        self.forwarder.start()
        if KIND_CLUSTERS in self.declared and runtime.creates_instances(self._environment):
            runtimes = {}
            for name, seconds in _POLL_SECONDS.items():
                with suppress(runtime.RuntimeUnavailable):  # not installed: the functions report it where it is used
                    runtimes[runtime.from_env(self._environment, name)] = seconds
            self._instances = Instances(client, self._submit_ended, runtimes)
            self._instances.start()

    def _submit_ended(self, event: Event) -> None:
        if self.forwarder is not None:
            self.forwarder.dispatcher.submit(event, [KIND_CLUSTERS])

    def stop(self) -> None:
        """Ends all parts that were started."""
        if self._instances is not None:
            self._instances.stop()
        if self.forwarder is not None:
            self.forwarder.stop()
        if self._listener is not None:
            self._listener.close()
        if self._delivery is not None:
            self._delivery.close()  # otherwise the functions' server waits for its idle connections
        if self.functions is not None:
            self.functions.close()
            self._token.unlink(missing_ok=True)


def store_in(folder: Path) -> dict[str, str]:
    """Returns the setting that makes functions keep releases and components in a folder, which need not exist."""
    return {"CAPI_FUNCTIONS_STORE": folder.absolute().as_uri()}


def wipe(folder: Path) -> None:
    """Deletes all objects in a folder of functions, which may run."""
    for path in folder.iterdir():
        shutil.rmtree(path)
