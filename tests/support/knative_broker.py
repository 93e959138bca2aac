"""Knative's broker as processes: its ingress, filter and in-memory dispatcher, with our generated Broker and Triggers.

No controller runs: what one would write, the addresses in statuses and the channel between the three, is written here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import urllib3
import yaml

from infra import local_control_plane
from infra.generate import eventing, workloads
from infra.local import crds
from infra.local_control_plane.binaries import locate
from shared import settings
from shared.api.resources import CONFIG_MAP, NAMESPACE
from shared.dead_letters import FUNCTION as DEAD_LETTERS
from shared.kube import Client, Object, Resource, key_of
from shared.kube.crds import CRD
from shared.triggers import Triggers
from tests.support import processes
from tests.support.objects import manifest
from tests.support.ports import KNATIVE_PORT, exclusive, free_port
from tests.support.until import logged, until

MODULE = Path(__file__).parents[2] / "infra" / "binaries" / "knative"
SYSTEM = "knative-eventing"
INGRESS, FILTER, DISPATCHER = PROGRAMS = ("ingress", "filter", "channel_dispatcher")

BROKER = Resource("eventing.knative.dev", "v1", "Broker", "brokers")
TRIGGER = Resource("eventing.knative.dev", "v1", "Trigger", "triggers")
CHANNEL = Resource("messaging.knative.dev", "v1", "InMemoryChannel", "inmemorychannels")

RETRIES: Mapping[str, Any] = {"retry": 5, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}


def install(client: Client) -> None:
    """Installs Knative's CRDs, from the module that its programs are built from, and what these read."""
    download = subprocess.run(
        ["go", "mod", "download", "-json", "knative.dev/eventing"],
        cwd=MODULE,
        capture_output=True,
        text=True,
        check=True,
    )
    config = Path(json.loads(download.stdout)["Dir"], "config")
    files = [*config.glob("core/resources/*.yaml"), *config.glob("channels/in-memory-channel/resources/*.yaml")]
    knative = [doc for file in files for doc in yaml.safe_load_all(file.read_text()) if doc]
    crds.install(client, [doc for doc in knative if doc["kind"] == CRD.kind])
    for name in (SYSTEM, settings.NAMESPACE):
        client.create(NAMESPACE, manifest(NAMESPACE, name))
    for name in ("config-logging", "config-observability", "config-features"):
        client.create(CONFIG_MAP, manifest(CONFIG_MAP, name, SYSTEM, data={}))


def report_ready(client: Client, resource: Resource, made: Object, **status: Any) -> Object:
    """Writes the status that a controller writes to an object that is Ready."""
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    full = {"conditions": [condition], "observedGeneration": made["metadata"]["generation"], **status}
    return client.patch(resource, key_of(made), {"status": full}, subresource="status")


def triggers_by_service(declared: Mapping[str, Triggers]) -> Iterator[tuple[str, Object]]:
    """Yields the Triggers of these functions, each with the name of the function's Service."""
    for function, triggers in declared.items():
        name = workloads.name_of(function)
        for trigger in eventing.triggers_of(triggers, name):
            yield name, trigger


class KnativeBroker:
    """The three programs, each of which can be killed and started again at its address; `close` ends them.

    Attributes:
        programs: Their names, in the order in which they start.
        fixed: The program that listens at KNATIVE_PORT, whatever its environment says.
    """

    programs: ClassVar[Sequence[str]] = PROGRAMS
    fixed: ClassVar[str] = DISPATCHER

    def __init__(self, client: Client, plane: Path, logs: Path) -> None:
        self._client, self._plane, self._logs = client, plane, logs
        self._ports = {name: KNATIVE_PORT if name == self.fixed else free_port() for name in self.programs}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._kept: socket.socket | None = None
        self._keep_port()

    @property
    def sink(self) -> str:
        """Where sources post events."""
        return f"{self._url(INGRESS)}/{settings.NAMESPACE}/{eventing.BROKER['name']}"

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def wire(
        self, declared: Mapping[str, Triggers], url: Callable[[str], str], delivery: Mapping[str, Any] = RETRIES
    ) -> None:
        """Creates Broker, channel, and the Triggers of these functions, with the status that controllers would write.

        `url` returns the address of a function by the name of its Service. Dead letters go to the function that keeps
        them, if it is one of these.
        """
        keeper = {"deadLetterSink": {"uri": url(workloads.name_of(DEAD_LETTERS))}} if DEAD_LETTERS in declared else {}
        channel = f"{eventing.BROKER['name']}-kne-trigger"
        at = f"{self._url(DISPATCHER)}/{settings.NAMESPACE}/{channel}"
        of_channel = {"knative.dev/channelAddress": at}
        self._ready(BROKER, eventing.broker(), address={"url": self.sink}, annotations=of_channel)
        subscribers = []
        for service, trigger in triggers_by_service(declared):
            made = self._ready(TRIGGER, trigger, subscriberUri=url(service))
            uid = made["metadata"]["uid"]
            path = f"{self._url(FILTER)}/triggers/{settings.NAMESPACE}/{made['metadata']['name']}/{uid}"
            subscribers.append(
                {
                    "uid": uid,
                    "subscriberUri": path,
                    "replyUri": self.sink,
                    "delivery": {**delivery, **keeper},
                    "generation": 1,
                }
            )
        annotations = {"messaging.knative.dev/async-handler": "true"}
        body = manifest(
            CHANNEL,
            channel,
            settings.NAMESPACE,
            metadata={"annotations": annotations},
            spec={"subscribers": subscribers},
        )
        self._ready(CHANNEL, body, address={"url": at})

    def deliver(self, delivery: Mapping[str, Any]) -> None:
        """Delivers this way from now on. What is on its way is lost."""
        channel = next(self._client.list(CHANNEL, settings.NAMESPACE))
        subscribers = [
            {**each, "delivery": {**each["delivery"], **delivery}} for each in channel["spec"]["subscribers"]
        ]
        self.kill(DISPATCHER)
        changed = self._client.patch(CHANNEL, key_of(channel), {"spec": {"subscribers": subscribers}})
        report_ready(self._client, CHANNEL, changed)
        self.start(DISPATCHER)

    def _ready(self, resource: Resource, obj: Object, **status: Any) -> Object:
        return report_ready(self._client, resource, self._client.create(resource, obj), **status)

    def start(self, *names: str) -> None:
        """Starts these programs, by default all, and returns once they answer."""
        for name in names or self.programs:
            if name == self.fixed:
                self._give_port()
            with (self._logs / f"{name}.log").open("ab") as output:
                self._running[name] = processes.start(
                    self._command(name),
                    env={**os.environ, **self._environment(name)},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
        for name in names or self.programs:
            until(self._answering(name), f"{name} answers", details=logged(self._logs / f"{name}.log"))

    def kill(self, *names: str) -> None:
        """Kills these programs, by default all."""
        for name in names or tuple(self._running):
            process = self._running.pop(name)
            process.kill()
            process.wait()
            if name == self.fixed:
                self._keep_port()

    def close(self) -> None:
        """Kills the programs."""
        self.kill()
        self._give_port()

    def _keep_port(self) -> None:
        """Keeps adapters from KNATIVE_PORT while its program is down. What connects to it there is refused.

        The programs listen on all addresses, which they cannot while somebody else listens on one.
        """
        self._kept = socket.create_server(("127.0.0.2", KNATIVE_PORT))

    def _give_port(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def _command(self, name: str) -> list[str | Path]:
        return [locate([name], progress=print)[name], *(["-disable-ha"] if name == DISPATCHER else [])]

    def _environment(self, name: str) -> dict[str, str]:
        idle = {"MAX_IDLE_CONNS": "100", "MAX_IDLE_CONNS_PER_HOST": "100"}
        own = {
            INGRESS: {"INGRESS_PORT": str(self._ports[name]), "INGRESS_PORT_HTTPS": str(free_port())},
            FILTER: {
                "FILTER_PORT": str(self._ports[name]),
                "FILTER_PORT_HTTPS": str(free_port()),
                "NAMESPACE": SYSTEM,
            },
            DISPATCHER: idle,
        }
        return {
            "KUBECONFIG": str(local_control_plane.kubeconfig(self._plane)),
            "SYSTEM_NAMESPACE": SYSTEM,
            "POD_NAME": name,
            "CONTAINER_NAME": name,
            "PROFILING_PORT": str(free_port()),
            **own[name],
        }

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def _answering(self, name: str) -> Callable[[], bool]:
        def answers() -> bool:
            try:
                urllib3.request("GET", self._url(name), timeout=1.0, retries=False)
            except urllib3.exceptions.HTTPError:
                return False
            return True

        return answers


@contextmanager
def knative_broker(
    client: Client, plane: Path, logs: Path, kind: type[KnativeBroker] = KnativeBroker
) -> Iterator[KnativeBroker]:
    """Yields the broker of a control plane that has its kinds, not started; kills it after the block.

    Waits until no other run of the tests uses KNATIVE_PORT; skips the test where a stranger does.
    """
    with exclusive(f"port-{KNATIVE_PORT}"):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", KNATIVE_PORT)) == 0:
                pytest.skip(f"port {KNATIVE_PORT} is taken, and Knative's brokers take no other")
        broker = kind(client, plane, logs)
        try:
            yield broker
        finally:
            broker.close()
