"""Installs providers in a control plane without pods, and runs their managers as processes of this machine."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra import local_control_plane
from infra.local_control_plane import files
from shared.api.resources import DEPLOYMENT
from shared.components.webhooks import WEBHOOK_KINDS, with_webhooks_at
from shared.kube import ApiError, Client, Object, dig, key_of
from shared.kube.crds import CRD, await_all_established
from shared.kube.discovery import Discovery

from .command import Addresses, ManagerError, command_of
from .process import ManagerProcess

HOST = "127.0.0.1"
FIELD_MANAGER = "local-managers"
_PORTS = range(10_000, 19_000)
"""Below the ports of clients, and of the workload clusters of Cluster API's docker provider."""
_THREADS = 8


@dataclass(frozen=True)
class LocalProvider:
    """A provider to install: its objects, with variables replaced, and the program of its manager."""

    objects: Sequence[Object]
    program: Path

    @property
    def deployment(self) -> Object:
        """The Deployment of the manager. Raises `ManagerError` if there is not exactly one."""
        found = [obj for obj in self.objects if obj["kind"] == DEPLOYMENT.kind]
        if len(found) != 1:
            raise ManagerError(f"{self.program.name}: the provider has {len(found)} Deployments, and 1 is needed")
        return found[0]


class Managers:
    """The managers of providers in the control plane in `plane`, between `start` and `stop`.

    Logs, certificates and addresses are in `folder`. A manager has all rights, as a user with the name of its
    Deployment, whose status says whether it is healthy.
    """

    def __init__(
        self,
        plane: Path,
        folder: Path,
        client: Client,
        *,
        progress: Callable[[str], None] = lambda _line: None,
        timeout: float = 120.0,
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._client = client
        self._progress = progress
        self._timeout = timeout
        self._discovery = Discovery(client)
        self._processes: list[ManagerProcess] = []
        self._reporting = threading.Lock()

    @property
    def pids(self) -> dict[str, int]:
        """The pids by name of the manager."""
        return {process.name: process.pid for process in self._processes}

    def start(self, providers: Sequence[LocalProvider]) -> None:
        """Installs the providers in their order, and returns once all managers are healthy.

        First come the kinds of all providers, then their managers, then the webhooks that these answer. Raises
        `ManagerError`, `ApiError` or `ControlPlaneError` after ending the managers that were started.
        """
        try:
            self._start(providers)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the managers in the reverse order of their start, and waits for all of them."""
        for process in reversed(self._processes):
            process.terminate()
        while self._processes:
            self._processes.pop().stop()

    def _start(self, providers: Sequence[LocalProvider]) -> None:
        objects: list[Object] = []
        prepared: list[ManagerProcess] = []
        ca = local_control_plane.load_ca(self._plane).cert_pem
        for provider in providers:
            addresses = self._addresses(provider.deployment)
            prepared.append(self._process(provider, addresses))
            objects += with_webhooks_at(provider.objects, f"https://{HOST}:{addresses.webhooks}", ca)
        webhooks = [obj for obj in objects if obj["kind"] in WEBHOOK_KINDS]
        for obj in objects:
            if obj["kind"] == "Namespace":
                self._apply(obj)
        with ThreadPoolExecutor(_THREADS) as pool:
            established = list(pool.map(self._apply, (obj for obj in objects if obj["kind"] == CRD.kind)))
            if problems := await_all_established(self._client, established):
                raise ManagerError("; ".join(problems.values()))
            others = ("Namespace", CRD.kind, *WEBHOOK_KINDS)
            list(pool.map(self._apply, (obj for obj in objects if obj["kind"] not in others)))
        for process in prepared:
            self._progress(f"starting manager {process.name}, log {process.log}")
            self._processes.append(process)
            process.start()
        for process in prepared:
            process.wait_healthy(self._timeout)
            self._progress(f"manager {process.name} is healthy")
        for obj in webhooks:
            self._apply(obj)

    def _apply(self, obj: Object) -> Object:
        resource = CRD if obj["kind"] == CRD.kind else self._discovery.resource(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ManagerError(f"{obj['kind']} {key_of(obj)} cannot be installed: {obj['apiVersion']} is not served")
        return self._client.apply(resource, obj, manager=FIELD_MANAGER)

    # -- one manager -------------------------------------------------------------------------------------------

    def _addresses(self, deployment: Object) -> Addresses:
        name = key_of(deployment).name
        certificates = self._folder / "managers" / name
        certificates.mkdir(mode=0o700, parents=True, exist_ok=True)
        pair = local_control_plane.load_ca(self._plane).issue(name[:64], dns=["localhost"], ips=[HOST], server=True)
        files.write(certificates / "tls.key", pair.key_pem)
        files.write(certificates / "tls.crt", pair.cert_pem)
        ports = free_ports(f"{self._folder}/{name}")
        return Addresses(
            host=HOST,
            health=next(ports),
            diagnostics=next(ports),
            webhooks=next(ports),
            certificates=certificates,
            kubeconfig=local_control_plane.add_user(self._plane, name, ["system:masters"]),
        )

    def _process(self, provider: LocalProvider, addresses: Addresses) -> ManagerProcess:
        deployment = provider.deployment
        command = command_of(deployment, addresses)
        name = key_of(deployment).name
        log = self._folder / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return ManagerProcess(
            name,
            [str(provider.program), *command.arguments],
            {**os.environ, **command.environment},
            log,
            health=(addresses.host, addresses.health),
            changed=lambda healthy: self._report(deployment, healthy),
        )

    def _report(self, deployment: Object, healthy: bool) -> None:
        """Writes the status of a Deployment, as its controller would."""
        with self._reporting:
            try:
                live = self._client.get(DEPLOYMENT, key_of(deployment))
                status = deployment_status(live, healthy, datetime.now(UTC))
                self._client.patch(
                    DEPLOYMENT, key_of(deployment), {"status": status}, subresource="status", manager=FIELD_MANAGER
                )
            except ApiError as error:
                self._progress(f"the status of Deployment {key_of(deployment)} cannot be written: {error}")


def deployment_status(live: Object, healthy: bool, now: datetime) -> Object:
    """Returns the status of a Deployment whose only pod is a local process."""
    ready = int(healthy)
    time = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    reason = "MinimumReplicasAvailable" if healthy else "MinimumReplicasUnavailable"
    condition = {
        "type": "Available",
        "status": str(healthy),
        "reason": reason,
        "message": f"the manager runs as a local process and is {'healthy' if healthy else 'not healthy'}",
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }
    return {
        "observedGeneration": dig(live, "metadata.generation"),
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": 1 - ready,
        "conditions": [condition],
    }


def free_ports(preference: str) -> Iterator[int]:
    """Yields ports that nobody listens on; the same ones for the same `preference` while they are free."""
    candidates: Iterable[int] = random.Random(preference).sample(_PORTS, len(_PORTS))  # noqa: S311 - no secret
    for port in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a former run may be closing
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port
    raise ManagerError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")
