"""The functions behind Knative's broker: its ingress, filter and in-memory dispatcher as plain processes, our generated
Triggers between them, and Knative's adapter as the source. No controller runs, so the test writes the statuses that one
would.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from functions import catalog
from infra import control_plane
from infra.control_plane.binaries import locate
from infra.local import crds
from infra.local.functions_server import FunctionsServer
from shared.api.conditions import is_true
from shared.api.provider import CORE
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET
from shared.event import PING, Event
from shared.kube import Client, Key, Object, Resource, connect, dig
from shared.kube.crds import CRD
from shared.storage import ObjectStore
from tests.knative.test_adapter import adapter, watched_since, watches
from tests.support.objects import create_local_cluster
from tests.support.releases import config_map, write_release
from tests.support.until import logged, until

PROJECT = Path(__file__).parents[2]
MODULE = PROJECT / "infra" / "binaries" / "knative"
SYSTEM = "knative-eventing"
NAMESPACE = "capi-functions"
DISPATCHER = 8080
"""The in-memory dispatcher's port, which it does not let one choose."""

BROKER = Resource("eventing.knative.dev", "v1", "Broker", "brokers")
TRIGGER = Resource("eventing.knative.dev", "v1", "Trigger", "triggers")
CHANNEL = Resource("messaging.knative.dev", "v1", "InMemoryChannel", "inmemorychannels")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def provider() -> list[Object]:
    """A core provider of one ConfigMap, and the ConfigMap that its components are in."""
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made-up"}, "data": {"a": "b"}}
    series = [{"major": 1, "minor": 1, "contract": "v1beta2"}]
    told = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": series}
    data = {"metadata": yaml.safe_dump(told), "components": yaml.safe_dump(made)}
    labels = {"provider": "core"}
    metadata = {"name": "v1.1.0", "namespace": "default", "labels": labels}
    wait = {"capi-functions.dev/wait": "false"}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        {
            "apiVersion": CORE.resource.api_version,
            "kind": CORE.kind,
            "metadata": {"name": "cluster-api", "namespace": "default", "annotations": wait},
            "spec": {"version": "v1.1.0", "fetchConfig": {"selector": {"matchLabels": labels}}},
        },
    ]


@pytest.fixture
def management(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """A control plane of its own with our CRDs and Knative's."""
    folder = tmp_path / "management"
    control_plane.start(folder, owner=os.getpid(), timeout=120)
    client = connect.from_kubeconfig(str(control_plane.kubeconfig(folder)))
    told = subprocess.run(
        ["go", "mod", "download", "-json", "knative.dev/eventing"],
        cwd=MODULE,
        capture_output=True,
        text=True,
        check=True,
    )
    config = Path(json.loads(told.stdout)["Dir"], "config")
    files = [*config.glob("core/resources/*.yaml"), *config.glob("channels/in-memory-channel/resources/*.yaml")]
    knative = [doc for file in files for doc in yaml.safe_load_all(file.read_text()) if doc]
    crds.install(client, [*crds.load(), *(doc for doc in knative if doc["kind"] == CRD.kind)])
    for name in (SYSTEM, NAMESPACE):
        client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name in ("config-logging", "config-observability", "config-features"):
        metadata = {"name": name, "namespace": SYSTEM}
        client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    yield client, folder
    client.close()
    for plane in (folder, *(tmp_path / "clusters").glob("*")):
        control_plane.stop(plane)


def generated(kind: str) -> list[Object]:
    files = sorted((PROJECT / "infra" / "knative").glob("*.yaml"))
    return [doc for file in files for doc in yaml.safe_load_all(file.read_text()) if doc and doc.get("kind") == kind]


def ready(client: Client, resource: Resource, obj: Object, **status: Any) -> Object:
    """Created, and with the status that a controller would give it."""
    made = client.create(resource, obj)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    full = {"conditions": [condition], "observedGeneration": made["metadata"]["generation"], **status}
    key = Key(made["metadata"]["namespace"], made["metadata"]["name"])
    return client.patch(resource, key, {"status": full}, subresource="status")


def wire(client: Client, functions: str, ingress: str, filters: str) -> None:
    """Broker, Triggers and channel, as they would be once their controllers had seen them."""
    [broker] = generated("Broker")
    name = broker["metadata"]["name"]
    channel = f"{name}-kne-trigger"
    at = f"http://127.0.0.1:{DISPATCHER}/{NAMESPACE}/{channel}"
    entry = f"{ingress}/{NAMESPACE}/{name}"
    ready(client, BROKER, broker, address={"url": entry}, annotations={"knative.dev/channelAddress": at})
    subscribers = []
    for trigger in generated("Trigger"):
        function = trigger["spec"]["subscriber"]["ref"]["name"].replace("-", "_")
        made = ready(client, TRIGGER, trigger, subscriberUri=f"{functions}/{function}")
        uid = made["metadata"]["uid"]
        path = f"{filters}/triggers/{NAMESPACE}/{made['metadata']['name']}/{uid}"
        delivery = {"retry": 5, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}
        subscribers.append(
            {"uid": uid, "subscriberUri": path, "replyUri": entry, "delivery": delivery, "generation": 1}
        )
    annotations = {"messaging.knative.dev/async-handler": "true"}
    metadata = {"name": channel, "namespace": NAMESPACE, "annotations": annotations}
    body: Object = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "metadata": metadata}
    ready(client, CHANNEL, body | {"spec": {"subscribers": subscribers}}, address={"url": at})


def start(stack: ExitStack, name: str, folder: Path, log: Path, **environment: str) -> None:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [locate([name], progress=print)[name], *(["-disable-ha"] if name == "channel_dispatcher" else [])],
            env={
                **os.environ,
                "KUBECONFIG": str(control_plane.kubeconfig(folder)),
                "SYSTEM_NAMESPACE": SYSTEM,
                "POD_NAME": name,
                "CONTAINER_NAME": name,
                "PROFILING_PORT": str(free_port()),
                **environment,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)


def answering(url: str) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            urllib3.request("GET", url, timeout=1.0, retries=False)
        except urllib3.exceptions.HTTPError:
            return False
        return True

    return answers


def test_the_whole_job_through_the_broker(
    management: tuple[Client, Path], object_store: ObjectStore, tmp_path: Path
) -> None:
    client, folder = management
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", DISPATCHER)) == 0:
            pytest.skip(f"port {DISPATCHER} is taken, and Knative's dispatcher takes no other")
    with ExitStack() as stack:
        ports = {name: free_port() for name in ("ingress", "filter")}
        ingress, filters = (f"http://127.0.0.1:{ports[name]}" for name in ("ingress", "filter"))
        sink = f"{ingress}/{NAMESPACE}/{generated('Broker')[0]['metadata']['name']}"
        environment = {
            **os.environ,
            "KUBECONFIG": str(control_plane.kubeconfig(folder)),
            "K_SINK": sink,
            "RELEASE_SOURCE": str(tmp_path / "releases"),
            "CAPI_FUNCTIONS_DATA": str(tmp_path),
            "CAPI_FUNCTIONS_OWNER": str(os.getpid()),
        }
        log = tmp_path / "functions.log"
        functions = FunctionsServer(environment, log)
        functions.start()
        stack.callback(functions.close)
        wire(client, functions.url, ingress, filters)
        idle = {"MAX_IDLE_CONNS": "100", "MAX_IDLE_CONNS_PER_HOST": "100"}
        start(stack, "channel_dispatcher", folder, tmp_path / "dispatcher.log", **idle)
        secure = {name: str(free_port()) for name in ("INGRESS_PORT_HTTPS", "FILTER_PORT_HTTPS")}
        start(stack, "ingress", folder, tmp_path / "ingress.log", INGRESS_PORT=str(ports["ingress"]), **secure)
        more = {"FILTER_PORT": str(ports["filter"]), "NAMESPACE": SYSTEM, **secure}
        start(stack, "filter", folder, tmp_path / "filter.log", **more)
        for url in (f"http://127.0.0.1:{DISPATCHER}", ingress, filters):
            until(answering(url), f"{url} answers", told=logged(tmp_path / "dispatcher.log"))
        before = watches(client)
        for reference in (False, True):
            process = adapter(
                control_plane.kubeconfig(folder), sink, tmp_path / f"adapter-{reference}.log", reference=reference
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        until(lambda: watched_since(client, before), "the adapters' watches")

        key, addon_key = Key("default", "demo"), Key("default", "cluster-addon-demo")
        first = write_release(tmp_path / "releases", "v1", [config_map("a"), config_map("b")])
        second = write_release(tmp_path / "releases", "v2", [config_map("a", "2"), config_map("c")])
        create_local_cluster(client, "demo", "default", topology={"classRef": {"name": first}})

        def tick() -> None:
            """What a PingSource would send: a broker has no clock, so the sweep is who comes back."""
            headers, body = Event(type=PING, source="/test", id=str(time.monotonic())).to_http()
            urllib3.request("POST", sink, headers=headers, body=body, timeout=5.0, retries=False)

        def applied(name: str) -> bool:
            tick()
            time.sleep(0.4)
            addon = client.find(CLUSTER_ADDON, addon_key)
            return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == name

        until(lambda: applied(first), "v1 applied", told=logged(log))
        client.patch(CLUSTER, key, {"spec": {"topology": {"classRef": {"name": second}}}})
        until(lambda: applied(second), "v2 applied", told=logged(log))
        entries = dig(client.get(CLUSTER_ADDON, addon_key), "status.resources")
        assert {entry["name"]: entry["status"] for entry in entries} == {"a": "synced", "c": "synced"}
        client.delete(CLUSTER, key)

        def gone() -> bool:
            tick()
            time.sleep(0.4)
            return client.find(CLUSTER, key) is None

        until(gone, "the Cluster gone", told=logged(log))
        assert list(client.list(SECRET, "default")) == []

        core_key = Key("default", "cluster-api")
        for obj in provider():
            client.create(CONFIG_MAP if obj["kind"] == "ConfigMap" else CORE.resource, obj)

        def installed() -> bool:
            tick()
            time.sleep(0.4)
            return is_true(dig(client.get(CORE.resource, core_key), "status.conditions"), "Ready")

        until(installed, "the provider installed", told=logged(log))
        assert client.get(CONFIG_MAP, Key("default", "made-up"))["data"] == {"a": "b"}
        client.delete(CORE.resource, core_key)

        def removed() -> bool:
            tick()
            time.sleep(0.4)
            return client.find(CORE.resource, core_key) is None

        until(removed, "the provider gone", told=logged(log))
        assert client.find(CONFIG_MAP, Key("default", "made-up")) is None
        # Every function was called, through its own Trigger, and none refused what the broker brought.
        lines = log.read_text()
        assert all(f" {name} " in lines for name in catalog.NAMES)
        assert " -> 400" not in lines
        assert " -> 500" not in lines
