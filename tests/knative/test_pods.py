"""The pods of the generated manifests: their command, environment, volumes and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from shared.api.resources import CLUSTER, CLUSTER_ADDON, CLUSTER_STACK_RELEASE, CONFIG_MAP, SECRET
from shared.event import Event, change_event, own_event
from shared.kube import Client, Key
from shared.storage import ObjectStore
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.pods import MANIFESTS, Pod, functions, isolation
from tests.support.ports import free_port
from tests.support.releases import config_map, write_release
from tests.support.until import HANGS, until
from tests.support.world import World

NAMESPACE = "capi-functions"
SINGLE = MANIFESTS.with_name("single")
SINK = "http://127.0.0.1:9"
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: rendered, namespace: {{ .Values.namespace }}}
data: {cluster: {{ .Values.cluster }}, release: {{ .Chart.Name }}}
"""
VALUES = "values: |\n  cluster: {{ .Cluster.metadata.name }}\n  namespace: {{ .Cluster.metadata.namespace }}\n"


@pytest.fixture
def settings(management: Client) -> Iterator[None]:
    """An installation without ConfigMaps and Secrets; those of the test are deleted after it."""
    yield
    for resource in (CONFIG_MAP, SECRET):
        for group in ("storage", "releases"):
            management.delete(resource, Key(NAMESPACE, f"capi-functions-{group}"))


def store_in(management: Client, object_store: ObjectStore) -> None:
    """Sets this object store in the settings of the installation."""
    management.create(SECRET, secret("capi-functions-storage", NAMESPACE, **KEYS))
    data = {"S3_ENDPOINT_URL": object_store.endpoint, "CAPI_FUNCTIONS_BUCKET": object_store.bucket}
    management.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-storage", NAMESPACE, data=data))


def post(pod: Pod, event: Event) -> urllib3.BaseHTTPResponse:
    headers, body = event.to_http()
    return urllib3.request("POST", pod.url, headers=headers, body=body, timeout=60.0, retries=False)


@pytest.mark.parametrize("path", functions(), ids=lambda path: path.stem.removeprefix("function-"))
def test_every_function_starts_with_its_manifest(
    management: Client, kubeconfig: Path, tmp_path: Path, path: Path
) -> None:
    gone = change_event(manifest(CLUSTER, "gone", "default"), "update", source="/test")
    with Pod(path, tmp_path, management, kubeconfig, SINK) as pod:
        pod.until_ready()
        assert post(pod, gone).status == 204
        assert b"capi_functions" in urllib3.request("GET", f"{pod.metrics_url}/metrics", timeout=HANGS).data
    assert ("K_SINK" in pod.environment) == (
        pod.name in ("cluster-wake", "dead-letters", "provider-wake", "rollout-wake", "source-wake", "sweep")
    )


def test_changed_settings_reach_a_function_without_a_restart(
    management: Client, kubeconfig: Path, namespace: str, object_store: ObjectStore, tmp_path: Path, settings: None
) -> None:
    tag = write_release(tmp_path / "releases", "v1", [config_map("a")])
    management.create(CLUSTER_STACK_RELEASE, manifest(CLUSTER_STACK_RELEASE, tag, namespace, spec={}))  # wants it
    data = {"release": tag, "namespace": namespace}
    request_event = own_event("release.wanted", source="/test", subject=tag, data=data)
    pod = Pod(MANIFESTS / "function-release-assets.yaml", tmp_path, management, kubeconfig, SINK)

    def answer() -> tuple[int, str]:
        """Returns the answer after an update of the volumes, and the log."""
        pod.sync()
        status = post(pod, request_event).status
        return status, pod.log.read_text().splitlines()[-1]

    with pod:
        pod.until_ready()
        status, line = answer()
        assert status == 503
        assert "CAPI_FUNCTIONS_STORE_KEY is not set" in line
        assert "ConfigMap or Secret capi-functions-storage in namespace capi-functions" in line

        store_in(management, object_store)
        status, line = answer()
        assert "RELEASE_SOURCE is not set" in line
        assert "ConfigMap or Secret capi-functions-releases in namespace capi-functions" in line

        source = {"RELEASE_SOURCE": (tmp_path / "releases").as_uri()}
        management.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-releases", NAMESPACE, data=source))
        status, line = answer()
        assert (status, line.rpartition(" ")[2]) == (204, "fetched")


@pytest.mark.skipif(not isolation(), reason="needs root and a mount namespace of its own")
@pytest.mark.parametrize("name", ["kubeconfig", "addon-create"])
def test_pod_runs_without_root_on_a_read_only_root_file_system(
    management: Client, kubeconfig: Path, namespace: str, tmp_path: Path, name: str
) -> None:
    """It uses the mounted credentials of its ServiceAccount, and logs only its deliveries."""
    cluster = management.create(
        CLUSTER,
        manifest(CLUSTER, "demo", namespace, spec={"topology": {"classRef": {"name": "docker-ferrol-1-36-v1"}}}),
    )
    event = Event(
        type="dev.knative.apiserver.ref.update",
        source="/test",
        id="1",
        api_version=cluster["apiVersion"],
        kind="Cluster",
        namespace=namespace,
        name="demo",
    )
    with Pod(MANIFESTS / f"function-{name}.yaml", tmp_path, management, kubeconfig, SINK, isolated=True) as pod:
        pod.until_ready()
        places = [
            place
            for place in ("/", "/app", "/tmp", "/root", "/var")
            if not pod.in_namespace("touch", f"{place}/x").returncode
        ]
        assert places == ["/tmp"]
        assert post(pod, event).status in (200, 204)
    addon = management.find(CLUSTER_ADDON, Key(namespace, "cluster-addon-demo"))
    assert (addon is not None) == (name == "addon-create")
    lines = pod.log.read_text().splitlines()
    assert [line for line in lines if f" {name.replace('-', '_')} Cluster {namespace}/demo " not in line] == []
    assert len(lines) == 1


@pytest.mark.skipif(not isolation(), reason="needs root and a mount namespace of its own")
def test_pod_renders_and_applies_a_chart(
    world: World, kubeconfig: Path, object_store: ObjectStore, tmp_path: Path, settings: None
) -> None:
    """The worker processes that render need a writable folder."""
    pod = Pod(MANIFESTS / "function-addon-apply.yaml", tmp_path / "pod", world.client, kubeconfig, SINK, isolated=True)
    store_in(world.client, object_store)
    pod.sync()
    world.secret()
    tag = write_release(world.releases, "v1", templates={"a.yaml": TEMPLATE}, values=VALUES)
    cluster = world.cluster(tag, policy={"wait": "false"})
    world.call("addon_create", change_event(cluster, "update", source="/test"))
    request_event = world.call("addon_apply", change_event(world.addon(), "update", source="/test")).reply
    assert request_event is not None
    fetched = world.call("release_assets", request_event).reply
    assert fetched is not None
    with pod:
        pod.until_ready()
        assert post(pod, fetched).status in (200, 202, 204)
    assert world.read("rendered")["data"] == {"cluster": "demo", "release": "addons"}
    lines = pod.log.read_text().splitlines()
    assert [line for line in lines if " addon_apply ClusterAddon " not in line] == []


def test_one_pod_gives_a_cluster_its_addons_without_knative(
    world: World, kubeconfig: Path, object_store: ObjectStore, tmp_path: Path, settings: None
) -> None:
    """Its two containers run with the rights of their account only."""
    ports = {8080: free_port(), 8081: free_port()}

    def container(name: str, *arguments: str) -> Pod:
        return Pod(
            SINGLE / "single.yaml",
            tmp_path / "pod",
            world.client,
            kubeconfig,
            deployment="capi-functions",
            container=name,
            access=SINGLE / "access.yaml",
            ports=ports,
            arguments=arguments,
        )

    served = container("functions")
    forwarder = container("forwarder", f"--namespace={world.namespace}")  # other tests share the API server
    store_in(world.client, object_store)
    source = {"RELEASE_SOURCE": world.releases.as_uri()}
    world.client.create(CONFIG_MAP, manifest(CONFIG_MAP, "capi-functions-releases", NAMESPACE, data=source))
    served.sync()
    world.secret()
    tag = write_release(world.releases, "v1", templates={"a.yaml": TEMPLATE}, values=VALUES)
    with served, forwarder:
        served.until_ready()
        world.cluster(tag, policy={"wait": "false"})
        until(lambda: "rendered" in world.names(), details=lambda: served.log.read_text() + forwarder.log.read_text())
        assert world.read("rendered")["data"] == {"cluster": "demo", "release": "addons"}
        answer = urllib3.request("GET", f"http://127.0.0.1:{ports[8081]}/", timeout=HANGS)
        assert answer.status == 200, "the forwarder receives events: it holds the Lease"
