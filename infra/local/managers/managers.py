"""Runs the managers of the providers that are installed in a plane, as a kubelet would run their pods."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from infra import local_control_plane
from infra.local_control_plane import files
from shared.api.provider import PROVIDER_LABEL, kind_of, provider_of_label
from shared.api.resources import DEPLOYMENT, SECRET
from shared.applier.policy import PolicyError
from shared.kube import ApiError, Client, Key, NotFound, Object, deleting, dig, key_of
from shared.providers.annotations import WEBHOOKS, webhooks_url

from . import programs
from .command import Addresses, ManagerError, Volume, command_of, printed_flags, volumes_of
from .ports import free_ports, is_free
from .process import ManagerProcess
from .status import deployment_status

FIELD_MANAGER = "local-managers"
_INTERVAL = 0.5
"""Seconds between checks of the Deployments."""
_RETRY = 10.0
"""Seconds until a manager that was never healthy is restarted, or a provider without a URL is read again."""

_HELP_TIMEOUT = 10.0  # seconds


@dataclass
class _Running:
    """A started manager; `started_for` identifies the Deployment and its generation."""

    deployment: Object
    started_for: tuple[str, int]
    process: ManagerProcess
    retry_at: float = 0.0


class Managers:
    """Runs each manager whose provider has the URL of its webhooks in an annotation, between `start` and `stop`.

    A manager runs with all rights, as a user with the name of its Deployment. A change of its Deployment restarts it;
    it ends when its Deployment is deleted or scaled to 0.

    Args:
        plane: The folder of the control plane.
        folder: The folder for logs and certificates.
        client: A client of the control plane.
        progress: Called with each line of progress, and with failures.
    """

    FOLDER: ClassVar = "managers"
    """The name of the folder with the certificates of the managers. `provider init --managers` creates it, too."""

    def __init__(
        self, plane: Path, folder: Path, client: Client, progress: Callable[[str], None] = lambda _line: None
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._client = client
        self._host = local_control_plane.status(plane).host
        self._progress = progress
        self._ports: dict[str, int] = {}
        self._running: dict[Key, _Running] = {}
        self._not_ours: dict[Key, float] = {}
        """Deployments whose providers have no URL, and the time of the next check."""
        self._unwritten: dict[Key, tuple[Object, bool]] = {}
        """Deployments whose status does not show yet whether their manager is healthy."""
        self._writing = threading.Lock()
        self._reported: dict[Key, str] = {}
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="managers", daemon=True)

    def start(self) -> None:
        """Starts looking for Deployments, from `look` on, or once the folder `FOLDER` exists."""
        self._thread.start()

    def look(self) -> None:
        """Looks for Deployments from now on."""
        self._wanted.set()

    def stop(self) -> None:
        """Ends the managers, the last started first, and waits for all of them."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(30)
        processes = [running.process for running in reversed(self._running.values())]
        for process in processes:
            process.terminate()
        for process in processes:
            process.stop()

    def free_port(self, purpose: str) -> int:
        """Returns a free port for a purpose of one manager: the same at each call and, if free, after a restart."""
        if purpose not in self._ports:
            taken = set(self._ports.values())
            self._ports[purpose] = next(port for port in free_ports(f"{self._folder}/{purpose}") if port not in taken)
        return self._ports[purpose]

    @property
    def pids(self) -> dict[str, int]:
        """The pids of the managers by name; 0 while one is started again."""
        return {running.process.name: running.process.pid for running in list(self._running.values())}

    # -- all managers ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL):
            if not (self._wanted.is_set() or (self._folder / self.FOLDER).is_dir()):
                continue
            try:
                self._look()
            except (ApiError, OSError) as error:
                self._report_problem(Key("", ""), f"managers: {error}")

    def _look(self) -> None:
        wanted = {key_of(obj): obj for obj in self._client.list(DEPLOYMENT, selector=PROVIDER_LABEL) if _is_wanted(obj)}
        for key, running in list(self._running.items()):
            if key not in wanted or running.started_for != _generation_of(wanted[key]):
                running.process.stop()
                del self._running[key]
        for key, deployment in wanted.items():
            try:
                if key not in self._running:
                    self._start_manager(key, deployment)
                elif self._running[key].process.error is not None:
                    self._retry(key, self._running[key])
            except (ManagerError, PolicyError, local_control_plane.ControlPlaneError) as error:
                self._report_problem(key, str(error))
        for key in list(self._unwritten):
            self._write_status(key)

    def _retry(self, key: Key, running: _Running) -> None:
        if not running.retry_at:
            running.retry_at = time.monotonic() + _RETRY
            self._report_problem(key, str(running.process.error))
            self._show(running.deployment, False)
        elif time.monotonic() > running.retry_at:
            self._leave_taken_port(running.deployment)
            del self._running[key]

    def _report_problem(self, key: Key, text: str) -> None:
        """Passes a text to `progress` unless it was the last one about this Deployment."""
        if self._reported.get(key) != text:
            self._reported[key] = text
            self._progress(text)

    # -- one manager -------------------------------------------------------------------------------------------

    def _start_manager(self, key: Key, deployment: Object) -> None:
        if self._not_ours.get(key, 0.0) > time.monotonic():
            return
        provider = self._provider(deployment)
        url = webhooks_url(provider) if provider else ""
        if not url:
            self._not_ours[key] = time.monotonic() + _RETRY
            return
        volumes = {volume: self._client.find(volume.resource, volume.key) for volume in volumes_of(deployment)}
        if any(obj is None and not volume.optional for volume, obj in volumes.items()):
            return  # `provider_install` is about to write it
        process = self._process(deployment, urlsplit(url).port or 0, volumes)
        self._running[key] = _Running(deployment, _generation_of(deployment), process)
        self._progress(f"starting manager {process.name}, log {process.log}")
        process.start()

    def _provider(self, deployment: Object) -> Object | None:
        """Returns the provider of a Deployment, which is in the same namespace."""
        found = provider_of_label(dig(deployment, ("metadata", "labels", PROVIDER_LABEL), ""))
        return self._client.find(found[0].resource, Key(key_of(deployment).namespace, found[1])) if found else None

    def _leave_taken_port(self, deployment: Object) -> None:
        """Gives the webhooks of a failed manager another port if their former port is taken."""
        provider = self._provider(deployment)
        url = webhooks_url(provider) if provider else ""
        port = urlsplit(url).port
        if provider is None or port is None or is_free(port):
            return
        name = key_of(deployment).name
        new = f"{url.rpartition(':')[0]}:{self.free_port(f'{name} webhooks instead of {port}')}"
        resource = kind_of(provider).resource
        patch = {"metadata": {"annotations": {WEBHOOKS: new}}}
        self._client.patch(resource, key_of(provider), patch, manager=FIELD_MANAGER)
        self._progress(f"the webhooks of {name} move to {new}: port {port} is taken")

    def _process(self, deployment: Object, port: int, volumes: Mapping[Volume, Object | None]) -> ManagerProcess:
        name = key_of(deployment).name
        program, is_given = self._program(deployment)
        folder = self._folder / self.FOLDER / name
        folders = {volume: folder / volume.name for volume in volumes}
        for volume, obj in volumes.items():
            _write_volume(folders[volume], volume, obj or {})
        addresses = Addresses(
            host=self._host,
            health=self.free_port(f"{name} health"),
            diagnostics=self.free_port(f"{name} diagnostics"),
            webhooks=port,
            certificates=next((folders[volume] for volume in volumes if volume.has_certificates), None),
            kubeconfig=local_control_plane.add_user(self._plane, name, ["system:masters"]),
            folders={volume.path: path for volume, path in folders.items()},
        )
        command = command_of(deployment, addresses, _flags(program) if is_given else ())
        return ManagerProcess(
            name,
            program,
            [command.name, *command.arguments],
            {**os.environ, **command.environment},
            self._folder / "logs" / f"{name}.log",
            health=(addresses.host, addresses.health),
            changed=lambda healthy: self._show(deployment, healthy),
        )

    def _program(self, deployment: Mapping[str, Any]) -> tuple[Path, bool]:
        """Returns the program of the manager in a Deployment, and whether a user provides it.

        Raises `ManagerError` if there is none of its version.
        """
        label = str(dig(deployment, ("metadata", "labels", PROVIDER_LABEL)))
        if (given := programs.given(self._folder, label)) is not None:
            return given, True
        return programs.pinned(deployment), False

    def _show(self, deployment: Object, healthy: bool) -> None:
        """Writes the health of a manager into the status of its Deployment, now or as soon as possible."""
        with self._writing:
            self._unwritten[key_of(deployment)] = (deployment, healthy)
        self._write_status(key_of(deployment))

    def _write_status(self, key: Key) -> None:
        with self._writing:
            if (wanted := self._unwritten.get(key)) is None:
                return
            try:
                live = self._client.find(DEPLOYMENT, key)
                if live is not None and _generation_of(live)[0] == _generation_of(wanted[0])[0]:
                    status = deployment_status(live, wanted[1], datetime.now(UTC))
                    self._client.patch(DEPLOYMENT, key, {"status": status}, subresource="status", manager=FIELD_MANAGER)
            except NotFound:
                pass  # deleted meanwhile
            except ApiError as error:
                self._report_problem(key, f"the status of Deployment {key} cannot be written: {error}")
                return
            del self._unwritten[key]


def webhook_host(plane: Path) -> str:
    """Returns the host in the URLs of webhooks, of the family of the plane's address."""
    return "[::1]" if ":" in local_control_plane.status(plane).host else "localhost"


def _flags(program: Path) -> frozenset[str]:
    """Returns the names of a program's flags, as its help prints them; none if it prints no help."""
    try:
        done = subprocess.run(
            [program, "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_HELP_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return printed_flags(done.stdout)


def _write_volume(folder: Path, volume: Volume, obj: Mapping[str, Any]) -> None:
    """Writes the content of a Secret or ConfigMap into a folder, as a kubelet does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    encoded = "data" if volume.resource is SECRET else "binaryData"
    content = {name: base64.b64decode(text) for name, text in (obj.get(encoded) or {}).items()}
    if volume.resource is not SECRET:
        content |= {name: text.encode() for name, text in (obj.get("data") or {}).items()}
    # This order writes the key before its certificate.
    for name, data in sorted(content.items(), reverse=True):
        path = dict(volume.items).get(name, "" if volume.items else name)
        target = (folder / path).resolve()
        if path and target.is_relative_to(folder.resolve()):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write(target, data)


def _is_wanted(deployment: Object) -> bool:
    return not deleting(deployment) and dig(deployment, "spec.replicas", 1) > 0


def _generation_of(deployment: Object) -> tuple[str, int]:
    return deployment["metadata"]["uid"], deployment["metadata"]["generation"]
