"""Knative's JetStream broker as processes: NATS, its ingress and its filter, with our generated Broker and Triggers.

`$CAPI_FUNCTIONS_JETSTREAM` names the folder with the executables natsjs-broker-ingress and natsjs-broker-filter of
Knative's eventing-natss. No controller runs: its stream, consumers, ConfigMap and statuses are written here.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from infra import local_control_plane
from infra.generate import eventing, workloads
from infra.local_control_plane.binaries import locate
from shared import settings
from shared.api.resources import CONFIG_MAP
from shared.dead_letters import FUNCTION as DEAD_LETTERS
from shared.kube import Client, Object, key_of
from shared.triggers import Triggers
from tests.support.knative_broker import (
    BROKER,
    FILTER,
    INGRESS,
    RETRIES,
    SYSTEM,
    TRIGGER,
    KnativeBroker,
    report_ready,
    triggers_by_service,
)
from tests.support.objects import manifest
from tests.support.ports import free_port

FOLDER = "CAPI_FUNCTIONS_JETSTREAM"
NATS = "nats-server"
STREAM = f"KN_BROKER_{settings.NAMESPACE}__{eventing.BROKER['name']}".upper().replace("-", "_")
SUBJECT = f"{settings.NAMESPACE}.{eventing.BROKER['name']}._knative_broker"
CONTRACT = "nats-broker-ingress-contract"
SECOND = 1_000_000_000
"""The unit of durations in JetStream's API is a nanosecond."""


class JetStreamBroker(KnativeBroker):
    """NATS, ingress and filter, each of which can be killed and started again at its address; NATS keeps its files."""

    programs: ClassVar = (NATS, INGRESS, FILTER)
    fixed: ClassVar = FILTER
    """The filter answers probes there."""

    def __init__(self, client: Client, plane: Path, logs: Path) -> None:
        if not os.environ.get(FOLDER):
            pytest.skip(f"${FOLDER} names no folder with the programs of Knative's JetStream broker")
        super().__init__(client, plane, logs)
        self._due: set[str] = set()

    def wire(
        self, declared: Mapping[str, Triggers], url: Callable[[str], str], delivery: Mapping[str, Any] = RETRIES
    ) -> None:
        """Starts NATS, and creates there and in Kubernetes what controllers would.

        The delivery is that of each Trigger, as in the chart, because this broker does not read that of the Broker.
        """
        self.start(NATS)
        keeper = {"deadLetterSink": {"uri": url(workloads.name_of(DEAD_LETTERS))}} if DEAD_LETTERS in declared else {}
        self._create_stream()
        self._ready(BROKER, _broker(), address={"url": self.sink})
        for service, trigger in triggers_by_service(declared):
            trigger["spec"]["delivery"] = {**delivery, **keeper}
            sink = {"deadLetterSinkUri": keeper["deadLetterSink"]["uri"]} if keeper else {}
            self._create_consumer(self._ready(TRIGGER, trigger, subscriberUri=url(service), **sink))

    def deliver(self, delivery: Mapping[str, Any]) -> None:
        """Delivers this way from now on; events on their way stay."""
        for trigger in list(self._client.list(TRIGGER, settings.NAMESPACE)):
            new = {**trigger["spec"]["delivery"], **delivery}
            changed = self._client.patch(TRIGGER, key_of(trigger), {"spec": {"delivery": new}})
            self._create_consumer(report_ready(self._client, TRIGGER, changed))

    def start(self, *names: str) -> None:
        """Starts these programs, by default all that do not run, and returns once they answer.

        While NATS is down the others end at once, and a kubelet starts them again. Here they start with NATS.
        """
        self._due |= set(names) or set(self.programs) - self._running.keys()
        if NATS in self._due or NATS in self._running:
            due = [name for name in self.programs if name in self._due]
            self._due.clear()
            for name in due:
                super().start(name)

    def kill(self, *names: str) -> None:
        """Kills these programs, by default all, as far as they run."""
        self._due -= set(names) or set(self.programs)
        if running := [name for name in names or self.programs if name in self._running]:
            super().kill(*running)

    def pending(self) -> int:
        """Returns how many events the stream has."""
        return int(self._ask(f"STREAM.INFO.{STREAM}", {})["state"]["messages"])

    def _create_stream(self) -> None:
        wanted = eventing.JETSTREAM["stream"]
        self._ask(
            f"STREAM.CREATE.{STREAM}",
            {
                "name": STREAM,
                "subjects": [f"{SUBJECT}.>"],
                "retention": wanted["retention"].lower(),
                "storage": wanted["storage"].lower(),
                "num_replicas": wanted["replicas"],
                "max_age": int(wanted["maxAge"].removesuffix("h")) * 3600 * SECOND,
                "discard": "old",
            },
        )
        key = f"{settings.NAMESPACE}/{eventing.BROKER['name']}"
        of_broker = {
            "namespace": settings.NAMESPACE,
            "name": eventing.BROKER["name"],
            "streamName": STREAM,
            "publishSubject": SUBJECT,
            "path": f"/{key}",
        }
        contract = json.dumps({"brokers": {key: of_broker}, "generation": 1})
        self._client.create(CONFIG_MAP, manifest(CONFIG_MAP, CONTRACT, SYSTEM, data={"contract": contract}))

    def _create_consumer(self, trigger: Object) -> None:
        """Creates or updates the consumer of a Trigger, with what the controller takes from the Trigger's delivery."""
        delivery = trigger["spec"]["delivery"]
        name = f"KN_TRIGGER_{trigger['metadata']['uid'].replace('-', '').upper()}"
        timeout = str(delivery.get("timeout", "PT30S")).removeprefix("PT").removesuffix("S")
        config = {
            "durable_name": name,
            "name": name,
            "filter_subject": f"{SUBJECT}.>",
            "ack_policy": "explicit",
            "ack_wait": int(float(timeout) * SECOND),
            "max_deliver": delivery["retry"] + 1,
            "deliver_policy": "new",
            "replay_policy": "instant",
        }
        self._ask(f"CONSUMER.DURABLE.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})

    def _ask(self, what: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request of JetStream's API: https://docs.nats.io/reference/reference-protocols/nats_api_reference."""
        body, inbox = json.dumps(request).encode(), f"_INBOX.{uuid.uuid4().hex}"
        options = json.dumps({"verbose": False, "pedantic": False}).encode()
        connection = socket.create_connection(("127.0.0.1", self._ports[NATS]), timeout=30)
        with closing(connection), connection.makefile("rwb") as stream:
            stream.write(b"CONNECT %b\r\nSUB %b 1\r\n" % (options, inbox.encode()))
            stream.write(b"PUB $JS.API.%b %b %d\r\n%b\r\n" % (what.encode(), inbox.encode(), len(body), body))
            stream.flush()
            while not (line := stream.readline()).startswith(b"MSG "):
                assert line, f"NATS ended the connection instead of answering {what}"
            answer: dict[str, Any] = json.loads(stream.read(int(line.split()[-1])))
        assert "error" not in answer, f"{what}: {answer['error']}"
        return answer

    def _command(self, name: str) -> list[str | Path]:
        if name == NATS:
            files = self._logs / "jetstream"
            address = ("--addr", "127.0.0.1", "--port", str(self._ports[NATS]))
            return [locate([NATS], progress=print)[NATS], "--jetstream", "--store_dir", files, *address]
        return [Path(os.environ[FOLDER], f"natsjs-broker-{name}")]

    def _environment(self, name: str) -> dict[str, str]:
        batch = {each["name"]: each["value"] for each in eventing.JETSTREAM["filter"]["env"]}
        return {
            "KUBECONFIG": str(local_control_plane.kubeconfig(self._plane)),
            "SYSTEM_NAMESPACE": SYSTEM,
            "NATS_URL": f"nats://127.0.0.1:{self._ports[NATS]}",
            "PORT": str(self._ports[name]),
            "POD_NAME": name,
            "CONTAINER_NAME": name,
            "PROFILING_PORT": str(free_port()),
            "METRICS_PROMETHEUS_PORT": str(free_port()),
            **(batch if name == FILTER else {}),
        }

    def _answering(self, name: str) -> Callable[[], bool]:
        if name != NATS:
            return super()._answering(name)

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self._ports[NATS])) == 0

        return answers


def _broker() -> Object:
    broker = eventing.broker()
    broker["metadata"]["annotations"]["eventing.knative.dev/broker.class"] = "NatsJetStreamBroker"
    return broker
