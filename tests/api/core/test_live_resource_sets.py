"""A ClusterResourceSet that passes from the unmodified manager of Cluster API core to the function, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from functions import catalog
from infra.local.local_run import LocalRun
from infra.operations.providers import local_managers
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import get_condition, is_true
from shared.api.resource_set import SOURCE_TYPE, binding_entry
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    SECRET,
    VALIDATING_WEBHOOKS,
)
from shared.clients import Clients
from shared.kube import Client, Key, Object, connect, dig
from shared.runtime import Answer
from shared.wake import wake_event
from tests.support import objects
from tests.support.http_server import HttpServer, Response
from tests.support.live_core import PROFILES
from tests.support.objects import manifest
from tests.support.real_providers import CURRENT, components
from tests.support.until import until

MANAGER = Key("capi-system", "capi-controller-manager")
WEBHOOKS = {
    VALIDATING_WEBHOOKS: Key("", "capi-validating-webhook-configuration"),
    MUTATING_WEBHOOKS: Key("", "capi-mutating-webhook-configuration"),
}
CLUSTERS, WORKLOAD = "sets", "workload"
LABELS = {"cni": "x"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRun]:
    """A management cluster with the manager of core, which is its own workload cluster."""
    published = components(CURRENT)
    (tmp_path / "releases").mkdir()
    with ExitStack() as cleanup:
        site = cleanup.enter_context(
            HttpServer(lambda request: Response(body=(published / request.path[1:]).read_bytes()))
        )
        for name in ("GITHUB_URL", "GITHUB_API_URL"):
            monkeypatch.setenv(name, site.url)
        run = LocalRun(
            tmp_path / "run", releases=tmp_path / "releases", progress=print, profiles=PROFILES, get_helm=False
        )
        cleanup.callback(run.stop)
        run.start(lambda: local_managers.install(run, local_managers.parse("core"), print))
        yield run


def config_map(name: str, value: str) -> Object:
    return manifest(CONFIG_MAP, name, WORKLOAD, data={"k": value})


def source(*contents: Object) -> Object:
    texts = {f"{n}.yaml": yaml.safe_dump(content) for n, content in enumerate(contents)}
    return manifest(CONFIG_MAP, "maps", CLUSTERS, data=texts)


def scale(client: Client, run: LocalRun, replicas: int) -> None:
    """Stops or starts core. Its webhooks count only while it runs."""
    client.patch(DEPLOYMENT, MANAGER, {"spec": {"replicas": replicas}})
    policy = {"failurePolicy": "Fail" if replicas else "Ignore"}
    for resource, key in WEBHOOKS.items():
        webhooks = client.get(resource, key)["webhooks"]
        client.patch(resource, key, {"webhooks": [{**webhook, **policy} for webhook in webhooks]})

    def is_reached() -> bool:
        available = dig(client.get(DEPLOYMENT, MANAGER), "status.availableReplicas", 0)
        return (MANAGER.name in run.run_managers().pids, available) == (bool(replicas), replicas)

    until(is_reached, f"core has {replicas} replicas")


def test_set_passes_from_core_to_the_function_and_back(run: LocalRun) -> None:
    key, demo = Key(CLUSTERS, "set"), Key(CLUSTERS, "demo")
    with closing(connect.from_kubeconfig(str(run.kubeconfig))) as client:
        for name in (CLUSTERS, WORKLOAD):
            client.apply(NAMESPACE, manifest(NAMESPACE, name), manager="user")
        client.create(CONFIG_MAP, source(config_map("a", "1")))
        secret = objects.secret("more", CLUSTERS, value=yaml.safe_dump(config_map("b", "1")))
        client.create(SECRET, {**secret, "type": SOURCE_TYPE})
        kubeconfig = objects.secret("demo-kubeconfig", CLUSTERS, value=run.kubeconfig.read_bytes())
        kubeconfig["metadata"]["labels"] = {CLUSTER_NAME_LABEL: demo.name}  # core reads no other Secrets
        client.create(SECRET, kubeconfig)
        infrastructure = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NoneCluster", "name": "demo"}
        spec: Object = {"infrastructureRef": infrastructure}
        client.create(CLUSTER, manifest(CLUSTER, "demo", CLUSTERS, metadata={"labels": LABELS}, spec=spec))
        done = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
        client.patch(CLUSTER, demo, {"status": {"initialization": done}}, subresource="status")
        sources = [{"kind": "ConfigMap", "name": "maps"}, {"kind": "Secret", "name": "more"}]
        spec = {"clusterSelector": {"matchLabels": LABELS}, "resources": sources, "strategy": "Reconcile"}
        client.create(CLUSTER_RESOURCE_SET, manifest(CLUSTER_RESOURCE_SET, "set", CLUSTERS, spec=spec))

        def call() -> Answer:
            """Calls the function in a new process, which remembers nothing."""
            event = wake_event(client.get(CLUSTER_RESOURCE_SET, key), source="/test")
            return catalog.handler("cluster_resource_set")(Clients(client), event)

        def is_applied(key: Key = key) -> bool:
            found = client.get(CLUSTER_RESOURCE_SET, key)
            current = dig(found, "status.observedGeneration") == found["metadata"]["generation"]
            return current and is_true(dig(found, "status.conditions"), "ResourcesApplied")

        def everything() -> list[Object]:
            """Returns the sources and all objects of the workload cluster."""
            named = ((CONFIG_MAP, "maps"), (SECRET, "more"))
            return [
                *(client.get(resource, Key(CLUSTERS, name)) for resource, name in named),
                *client.list(CONFIG_MAP, WORKLOAD),
            ]

        def records() -> list[Object]:
            """Returns the binding, and what the set itself shows; the function adds an annotation for itself."""
            found = client.get(CLUSTER_RESOURCE_SET, key)
            applied = get_condition(dig(found, "status.conditions"), "ResourcesApplied")
            return [client.get(CLUSTER_RESOURCE_SET_BINDING, demo), found["spec"], applied or {}]

        def details() -> object:
            return dig(client.get(CLUSTER_RESOURCE_SET, key), "status"), dig(client.get(CLUSTER, demo), "status")

        until(is_applied, "core has applied the set", details=details)
        assert "reconciles this object" in call().message
        by_core = everything(), records()

        scale(client, run, 0)
        assert "reconciles this object" not in call().message
        assert (everything(), records()) == by_core

        client.apply(CONFIG_MAP, source(config_map("a", "2"), config_map("c", "2")), manager="user")
        answer = call()
        assert answer.status == 204, answer
        values = {name: dig(client.get(CONFIG_MAP, Key(WORKLOAD, name)), "data.k") for name in "abc"}
        assert values == {"a": "2", "b": "1", "c": "2"}
        by_function, entry = everything(), binding_entry(client.get(CLUSTER_RESOURCE_SET_BINDING, demo), "set")

        scale(client, run, 1)
        assert "reconciles this object" in call().message
        # Core looks at its sets when it starts, so once it has applied a later set, it has looked at the first one.
        late = manifest(CONFIG_MAP, "late", CLUSTERS, data={"0.yaml": yaml.safe_dump(config_map("late", "1"))})
        client.create(CONFIG_MAP, late)
        spec = {**spec, "resources": [{"kind": "ConfigMap", "name": "late"}]}
        client.create(CLUSTER_RESOURCE_SET, manifest(CLUSTER_RESOURCE_SET, "late", CLUSTERS, spec=spec))
        until(lambda: is_applied(Key(CLUSTERS, "late")), "core has applied the later set", details=details)
        until(is_applied, "core reports the set as applied", details=details)
        assert [obj for obj in everything() if obj["metadata"]["name"] != "late"] == by_function
        assert binding_entry(client.get(CLUSTER_RESOURCE_SET_BINDING, demo), "set") == entry
