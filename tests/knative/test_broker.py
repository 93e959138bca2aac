"""The functions behind Knative's brokers: their programs as plain processes, our generated Triggers between them, and
Knative's adapter as the source. No controller runs, so the test writes the statuses that one
would. Each function is a process of its own with what its manifest gives it: command, environment, settings, rights.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3
import yaml

from functions import catalog
from infra import local_control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.conditions import is_true
from shared.api.provider import CORE
from shared.api.resources import (
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_RESOURCE_SET,
    CLUSTER_ROLLOUT,
    CLUSTER_STACK,
    CLUSTER_STACK_RELEASE,
    CONFIG_MAP,
    EVENT,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    SECRET,
)
from shared.dead_letters import DeadLetter, DeadLetters
from shared.event import PING, Event, issue, own_event
from shared.kube import Client, Key, Object, dig
from shared.settings import NAMESPACE
from shared.storage import ObjectStore
from tests.support import knative_broker
from tests.support.jetstream_broker import JetStreamBroker
from tests.support.knative_adapter import adapter, watched_since, watches
from tests.support.knative_broker import KnativeBroker
from tests.support.object_store import KEYS
from tests.support.objects import create_local_cluster, manifest, secret
from tests.support.planes import connected, running_plane
from tests.support.pods import Pod
from tests.support.pods import functions as pod_manifests
from tests.support.releases import config_map, write_release
from tests.support.until import HANGS, until

CLASS = f"""
apiVersion: {CLUSTER.api_version}
kind: ClusterClass
metadata: {{name: test-stack-1-36-v2}}
"""


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
    with running_plane(tmp_path / "management") as folder, connected(folder) as client:
        knative_broker.install(client)
        yield client, folder
    for plane in (tmp_path / "clusters").glob("*"):
        local_control_plane.stop(plane)


@pytest.mark.timeout(1800)  # another test run may use the port of the dispatcher
@pytest.mark.parametrize("kind", [KnativeBroker, JetStreamBroker])
def test_functions_reconcile_behind_the_broker(
    management: tuple[Client, Path], object_store: ObjectStore, tmp_path: Path, kind: type[KnativeBroker]
) -> None:
    client, folder = management
    with ExitStack() as stack:
        broker = stack.enter_context(knative_broker.knative_broker(client, folder, tmp_path, kind))
        sink = broker.sink
        settings = {"RELEASE_SOURCE": str(tmp_path / "releases")}
        client.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-releases", NAMESPACE, data=settings))
        store = {"S3_ENDPOINT_URL": object_store.endpoint, "CAPI_FUNCTIONS_BUCKET": object_store.bucket}
        client.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-storage", NAMESPACE, data=store))
        client.create(SECRET, secret("capi-functions-storage", NAMESPACE, **KEYS))
        kubeconfig = local_control_plane.kubeconfig(folder)
        pods = [Pod(path, tmp_path / "pods", client, kubeconfig, sink) for path in pod_manifests()]
        for pod in pods:
            stack.enter_context(pod).until_ready()  # one by one: concurrent starts would slow each other down
        here = {"KUBECONFIG": str(kubeconfig), "CAPI_FUNCTIONS_DATA": str(tmp_path)}
        owner = {"CAPI_FUNCTIONS_OWNER": str(os.getpid())}
        local = FunctionsServer({**os.environ, **here, **owner}, tmp_path / "kind_cluster.log", function="kind_cluster")
        local.start()
        stack.callback(local.close)
        # KINDClusters are made by a function of this machine.
        urls = {pod.name: pod.url for pod in pods} | {"kind-cluster": local.url}
        broker.wire(catalog.triggers(), urls.__getitem__)

        def log() -> str:
            return "".join(pod.log.read_text() for pod in pods)

        def reported() -> str:
            return "\n".join(line for line in log().splitlines() if " -> 204 " not in line)[-6000:]

        broker.start()
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
            urllib3.request("POST", sink, headers=headers, body=body, timeout=HANGS, retries=False)

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

        # A rollout to the class that the Cluster has, a set of objects, and a chart whose repository does not answer.
        labels = {"test": "charts"}
        client.patch(CLUSTER, key, {"metadata": {"labels": labels}})
        source = manifest(CONFIG_MAP, "set", "default", data={"a.yaml": yaml.safe_dump(config_map("of-set"))})
        client.create(CONFIG_MAP, source)
        selected = {"clusterSelector": {"matchLabels": labels}}
        sources = {"resources": [{"kind": "ConfigMap", "name": "set"}]}
        client.create(CLUSTER_RESOURCE_SET, manifest(CLUSTER_RESOURCE_SET, "set", "default", spec=selected | sources))
        chart = {"chartName": "chart", "repoURL": "https://127.0.0.1:1"}
        client.create(HELM_CHART_PROXY, manifest(HELM_CHART_PROXY, "chart", "default", spec=selected | chart))
        target = {"topology": {"classRef": {"name": second}}, "rolloutStrategy": {"maxUnavailable": 1}}
        client.create(CLUSTER_ROLLOUT, manifest(CLUSTER_ROLLOUT, "second", "default", spec=selected | target))

        def charts_reported() -> bool:
            tick()
            time.sleep(0.4)
            applied = client.get(CLUSTER_RESOURCE_SET, Key("default", "set"))
            releases = [dig(each, "status.conditions") for each in client.list(HELM_RELEASE_PROXY, "default")]
            rollout = client.get(CLUSTER_ROLLOUT, Key("default", "second"))
            found = is_true(dig(applied, "status.conditions"), "ResourcesApplied") and "127.0.0.1:1" in str(releases)
            return found and bool(dig(rollout, "status.conditions"))

        until(charts_reported, "the set applied, the rollout and the chart reported", details=reported)
        for kind_, name in ((HELM_CHART_PROXY, "chart"), (CLUSTER_RESOURCE_SET, "set"), (CLUSTER_ROLLOUT, "second")):
            client.delete(kind_, Key("default", name))

        def charts_gone() -> bool:
            tick()
            time.sleep(0.4)
            return not [*client.list(HELM_CHART_PROXY, "default"), *client.list(CLUSTER_RESOURCE_SET, "default")]

        until(charts_gone, "the set and the chart gone", details=reported)
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
        assert set(silent) <= {"dead-letters"}  # which may have got a sweep that met another one
        lines = log().splitlines()
        assert [line for line in lines if " -> 400" in line or " -> 500" in line or "forbidden" in line] == []

        if kind is JetStreamBroker:
            return  # this class drops an event that its function rejects, without a dead letter
        # An event that its function rejects.
        cluster_stack = client.get(CLUSTER_STACK, Key("default", "stack"))
        data = {"release": "not a release", "namespace": "default"}
        wanted = issue(own_event("release.wanted", source="/test", subject="x", about=cluster_stack, data=data))
        headers, body = wanted.to_http()
        urllib3.request("POST", sink, headers=headers, body=body, timeout=HANGS, retries=False)
        letters = DeadLetters(object_store)

        def rejected() -> list[DeadLetter]:
            # Knative's filter answers 400, too, to an event that takes longer than 10 s to arrive on a busy machine.
            return [letter for letter in letters.list() if letter.status == 400 and letter.event.id == wanted.id]

        until(rejected, "the dead letter", details=reported)
        [letter] = rejected()
        assert (letter.event.kind, str(letter.event.key)) == ("ClusterStack", "default/stack")

        def reported_by() -> bool:
            found = [(event["reason"], event["involvedObject"]["uid"]) for event in client.list(EVENT, "default")]
            return ("EventNotHandled", cluster_stack["metadata"]["uid"]) in found

        until(reported, "the Kubernetes event", details=reported)
