"""The functions behind Knative's broker: its ingress, filter and in-memory dispatcher as plain processes, our generated
Triggers between them, and Knative's adapter as the source. No controller runs, so the test writes the statuses that one
would. Each function is a process of its own with what its manifest gives it: command, environment, settings, rights.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from functions.kind_cluster import triggers as kind_cluster
from infra import local_control_plane
from infra.generate.eventing import triggers_of
from infra.local import crds
from infra.local.functions_server import FunctionsServer
from infra.local_control_plane.binaries import locate
from shared.api.conditions import is_true
from shared.api.provider import CORE
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK, CLUSTER_STACK_RELEASE, CONFIG_MAP, SECRET
from shared.dead_letters import DeadLetters
from shared.event import PING, Event, issue, own_event
from shared.kube import Client, Key, Object, Resource, connect, dig
from shared.kube.crds import CRD
from shared.storage import ObjectStore
from tests.support import processes
from tests.support.knative_adapter import adapter, watched_since, watches
from tests.support.objects import EVENT, create_local_cluster, manifest, secret
from tests.support.pods import Pod
from tests.support.pods import functions as pod_manifests
from tests.support.ports import exclusive, free_port
from tests.support.releases import config_map, write_release
from tests.support.until import logged, until

PROJECT = Path(__file__).parents[2]
MODULE = PROJECT / "infra" / "binaries" / "knative"
SYSTEM = "knative-eventing"
NAMESPACE = "capi-functions"
DISPATCHER = 8080
"""The port of the in-memory dispatcher, a constant of its source."""

BROKER = Resource("eventing.knative.dev", "v1", "Broker", "brokers")
TRIGGER = Resource("eventing.knative.dev", "v1", "Trigger", "triggers")
CHANNEL = Resource("messaging.knative.dev", "v1", "InMemoryChannel", "inmemorychannels")
CLASS = f"""
apiVersion: {CLUSTER.api_version}
kind: ClusterClass
metadata: {{name: test-stack-1-36-v2}}
"""
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


def provider() -> list[Object]:
    """Returns a core provider, the ConfigMap with its components, and the Secret with a variable of theirs."""
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made-up"}, "data": {"a": "${VALUE}"}}
    series = [{"major": 1, "minor": 1, "contract": "v1beta2"}]
    release_metadata = {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": series,
    }
    data = {"metadata": yaml.safe_dump(release_metadata), "components": yaml.safe_dump(made)}
    labels = {"provider": "core"}
    metadata = {"name": "v1.1.0", "namespace": "default", "labels": labels}
    wait = {"capi-functions.dev/wait": "false"}
    return [
        secret("variables", "default", VALUE="one"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        {
            "apiVersion": CORE.resource.api_version,
            "kind": CORE.kind,
            "metadata": {"name": "cluster-api", "namespace": "default", "annotations": wait},
            "spec": {
                "version": "v1.1.0",
                "configSecret": {"name": "variables"},
                "fetchConfig": {"selector": {"matchLabels": labels}},
            },
        },
    ]


@pytest.fixture
def management(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """A control plane with our CRDs and Knative's."""
    folder = tmp_path / "management"
    local_control_plane.start(folder, owner=os.getpid(), timeout=120)
    client = connect.from_kubeconfig(str(local_control_plane.kubeconfig(folder)))
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
    crds.install(client, [*crds.load(), *(doc for doc in knative if doc["kind"] == CRD.kind)])
    for name in (SYSTEM, NAMESPACE):
        client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name in ("config-logging", "config-observability", "config-features"):
        metadata = {"name": name, "namespace": SYSTEM}
        client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    yield client, folder
    client.close()
    for plane in (folder, *(tmp_path / "clusters").glob("*")):
        local_control_plane.stop(plane)


def generated(kind: str) -> list[Object]:
    files = sorted((PROJECT / "infra" / "knative").glob("*.yaml"))
    return [doc for file in files for doc in yaml.safe_load_all(file.read_text()) if doc and doc.get("kind") == kind]


def ready(client: Client, resource: Resource, obj: Object, **status: Any) -> Object:
    """Creates an object with the status that its controller would write."""
    made = client.create(resource, obj)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    full = {"conditions": [condition], "observedGeneration": made["metadata"]["generation"], **status}
    key = Key(made["metadata"]["namespace"], made["metadata"]["name"])
    return client.patch(resource, key, {"status": full}, subresource="status")


def wire(client: Client, functions: Mapping[str, str], ingress: str, filters: str) -> None:
    """Creates Broker, Triggers and channel with the status that their controllers would write.

    `functions` has the address of each by name. KINDClusters are made by a function of this machine.
    """
    [broker] = generated("Broker")
    name = broker["metadata"]["name"]
    channel = f"{name}-kne-trigger"
    at = f"http://127.0.0.1:{DISPATCHER}/{NAMESPACE}/{channel}"
    entry = f"{ingress}/{NAMESPACE}/{name}"
    ready(client, BROKER, broker, address={"url": entry}, annotations={"knative.dev/channelAddress": at})
    subscribers = []
    for trigger in [*generated("Trigger"), *triggers_of(kind_cluster.TRIGGERS, "kind-cluster", NAMESPACE)]:
        made = ready(client, TRIGGER, trigger, subscriberUri=functions[trigger["spec"]["subscriber"]["ref"]["name"]])
        uid = made["metadata"]["uid"]
        path = f"{filters}/triggers/{NAMESPACE}/{made['metadata']['name']}/{uid}"
        sink = {"uri": functions[dig(broker, "spec.delivery.deadLetterSink.ref.name")]}
        timing = {"retry": 5, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}
        delivery = {**timing, "deadLetterSink": sink}
        subscribers.append(
            {"uid": uid, "subscriberUri": path, "replyUri": entry, "delivery": delivery, "generation": 1}
        )
    annotations = {"messaging.knative.dev/async-handler": "true"}
    metadata = {"name": channel, "namespace": NAMESPACE, "annotations": annotations}
    body: Object = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "metadata": metadata}
    ready(client, CHANNEL, body | {"spec": {"subscribers": subscribers}}, address={"url": at})


def start(stack: ExitStack, name: str, folder: Path, log: Path, **environment: str) -> None:
    with log.open("wb") as output:
        process = processes.start(
            [locate([name], progress=print)[name], *(["-disable-ha"] if name == "channel_dispatcher" else [])],
            env={
                **os.environ,
                "KUBECONFIG": str(local_control_plane.kubeconfig(folder)),
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


@pytest.mark.timeout(1800)  # another test run may use the port of the dispatcher
def test_functions_reconcile_behind_the_broker(
    management: tuple[Client, Path], object_store: ObjectStore, tmp_path: Path
) -> None:
    client, folder = management
    with ExitStack() as stack:
        stack.enter_context(exclusive(f"port-{DISPATCHER}"))
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", DISPATCHER)) == 0:
                pytest.skip(f"port {DISPATCHER} is taken, and Knative's dispatcher takes no other")
        ports = {name: free_port() for name in ("ingress", "filter")}
        ingress, filters = (f"http://127.0.0.1:{ports[name]}" for name in ("ingress", "filter"))
        sink = f"{ingress}/{NAMESPACE}/{generated('Broker')[0]['metadata']['name']}"
        settings = {"RELEASE_SOURCE": str(tmp_path / "releases")}
        client.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-releases", NAMESPACE, data=settings))
        store = {"S3_ENDPOINT_URL": object_store.endpoint, "CAPI_FUNCTIONS_BUCKET": object_store.bucket}
        client.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-storage", NAMESPACE, data=store))
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        client.create(SECRET, secret("capi-functions-storage", NAMESPACE, **keys))
        kubeconfig = local_control_plane.kubeconfig(folder)
        pods = [Pod(path, tmp_path / "pods", client, kubeconfig, sink) for path in pod_manifests()]
        for pod in pods:
            stack.enter_context(pod).until_ready()  # one by one: concurrent starts would slow each other down
        here = {"KUBECONFIG": str(kubeconfig), "CAPI_FUNCTIONS_DATA": str(tmp_path)}
        owner = {"CAPI_FUNCTIONS_OWNER": str(os.getpid())}
        local = FunctionsServer({**os.environ, **here, **owner}, tmp_path / "kind_cluster.log", function="kind_cluster")
        local.start()
        stack.callback(local.close)
        wire(client, {pod.name: pod.url for pod in pods} | {"kind-cluster": local.url}, ingress, filters)

        def log() -> str:
            return "".join(pod.log.read_text() for pod in pods)

        def reported() -> str:
            return "\n".join(line for line in log().splitlines() if " -> 204 " not in line)[-6000:]

        idle = {"MAX_IDLE_CONNS": "100", "MAX_IDLE_CONNS_PER_HOST": "100"}
        start(stack, "channel_dispatcher", folder, tmp_path / "dispatcher.log", **idle)
        secure = {name: str(free_port()) for name in ("INGRESS_PORT_HTTPS", "FILTER_PORT_HTTPS")}
        start(stack, "ingress", folder, tmp_path / "ingress.log", INGRESS_PORT=str(ports["ingress"]), **secure)
        more = {"FILTER_PORT": str(ports["filter"]), "NAMESPACE": SYSTEM, **secure}
        start(stack, "filter", folder, tmp_path / "filter.log", **more)
        for url in (f"http://127.0.0.1:{DISPATCHER}", ingress, filters):
            until(answering(url), f"{url} answers", details=logged(tmp_path / "dispatcher.log"))
        before = watches(client)
        for reference in (False, True):
            process = adapter(
                local_control_plane.kubeconfig(folder), sink, tmp_path / f"adapter-{reference}.log", reference=reference
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        until(lambda: watched_since(client, before), "the adapters' watches")

        key, addon_key = Key("default", "demo"), Key("default", "cluster-addon-demo")
        first = write_release(tmp_path / "releases", "v1", [config_map("a"), config_map("b")])
        objects = [config_map("a", "2"), config_map("c")]
        second = write_release(tmp_path / "releases", "v2", objects, class_templates={"class.yaml": CLASS})
        create_local_cluster(client, "demo", "default", topology={"classRef": {"name": first}})

        def tick() -> None:
            """Posts the event of a PingSource: the sweep replaces requeues, which a broker ignores."""
            headers, body = Event(type=PING, source="/test", id=str(time.monotonic())).to_http()
            urllib3.request("POST", sink, headers=headers, body=body, timeout=5.0, retries=False)

        def applied(name: str) -> bool:
            tick()
            time.sleep(0.4)
            addon = client.find(CLUSTER_ADDON, addon_key)
            return dig(addon, "status.ready") is True and dig(addon, "spec.clusterStack") == name

        until(lambda: applied(first), "v1 applied", details=reported)
        client.patch(CLUSTER, key, {"spec": {"topology": {"classRef": {"name": second}}}})
        until(lambda: applied(second), "v2 applied", details=reported)
        entries = dig(client.get(CLUSTER_ADDON, addon_key), "status.resources")
        assert {entry["name"]: entry["status"] for entry in entries} == {"a": "synced", "c": "synced"}
        client.delete(CLUSTER, key)

        def gone() -> bool:
            tick()
            time.sleep(0.4)
            return client.find(CLUSTER, key) is None

        until(gone, "the Cluster gone", details=reported)
        assert list(client.list(SECRET, "default")) == []

        spec = {
            "provider": "test",
            "name": "stack",
            "kubernetesVersion": "1.36",
            "noProvider": True,
            "versions": ["v2"],
        }
        client.create(CLUSTER_STACK, manifest(CLUSTER_STACK, "stack", "default", spec=spec))

        def offered() -> bool:
            tick()
            time.sleep(0.4)
            release = client.find(CLUSTER_STACK_RELEASE, Key("default", "test-stack-1-36-v2"))
            stack = client.get(CLUSTER_STACK, Key("default", "stack"))
            return dig(release, "status.ready") is True and is_true(dig(stack, "status.conditions"), "Ready")

        until(offered, "the release of the ClusterStack", details=reported)

        core_key = Key("default", "cluster-api")
        kinds = {resource.kind: resource for resource in (CONFIG_MAP, SECRET, CORE.resource)}
        for obj in provider():
            client.create(kinds[obj["kind"]], obj)

        def installed() -> bool:
            tick()
            time.sleep(0.4)
            return is_true(dig(client.get(CORE.resource, core_key), "status.conditions"), "Ready")

        until(installed, "the provider installed", details=reported)
        assert client.get(CONFIG_MAP, Key("default", "made-up"))["data"] == {"a": "one"}

        # No sweep: `provider_wake` posts the change of a provider's Secret to the broker.
        client.apply(SECRET, secret("variables", "default", VALUE="two"), manager="user")

        def renewed() -> bool:
            return dig(client.get(CONFIG_MAP, Key("default", "made-up")), "data.a") == "two"

        until(renewed, "the provider's components have the new value", details=reported)
        client.delete(CORE.resource, core_key)

        def removed() -> bool:
            tick()
            time.sleep(0.4)
            return client.find(CORE.resource, core_key) is None

        until(removed, "the provider gone", details=reported)
        assert client.find(CONFIG_MAP, Key("default", "made-up")) is None
        # Every function was called through its Trigger; none refused an event or lacked a right.
        silent = [pod.name for pod in pods if f" {pod.name.replace('-', '_')} " not in pod.log.read_text()]
        assert silent == ["dead-letters"]
        lines = log().splitlines()
        assert [line for line in lines if " -> 400" in line or " -> 500" in line or "forbidden" in line] == []

        # An event that its function rejects.
        cluster_stack = client.get(CLUSTER_STACK, Key("default", "stack"))
        data = {"release": "not a release", "namespace": "default"}
        wanted = own_event("release.wanted", source="/test", subject="x", about=cluster_stack, data=data)
        headers, body = issue(wanted).to_http()
        urllib3.request("POST", sink, headers=headers, body=body, timeout=5.0, retries=False)
        letters = DeadLetters(object_store)
        until(letters.list, "the dead letter", details=reported)
        [letter] = letters.list()
        assert (letter.status, letter.event.kind, str(letter.event.key)) == (400, "ClusterStack", "default/stack")

        def told() -> bool:
            found = [(event["reason"], event["involvedObject"]["uid"]) for event in client.list(EVENT, "default")]
            return ("EventNotHandled", cluster_stack["metadata"]["uid"]) in found

        until(told, "the Kubernetes event", details=reported)
