"""The Helm chart on a real node: pods stop, move and come back, and a release is removed and installed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import urllib3
import yaml

from infra.node import addresses, daemons
from shared.api import resources
from shared.api.conditions import is_true
from shared.api.resources import CLUSTER, CLUSTER_ROLE, DEPLOYMENT, LEASE, POD, SECRET, SERVICE
from shared.kube import ApiError, Client, Key, Object, Resource, dig, key_of
from tests.support import processes
from tests.support.audit import AuditLog, prove
from tests.support.node_addons import Addons
from tests.support.node_installation import CHART, NAMESPACE, RELEASE, Installation, measured
from tests.support.object_store import KEYS
from tests.support.objects import manifest, secret
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

CLUSTER_ROLE_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
NAME = RELEASE
"""Of the release, and of its Deployment."""


@pytest.fixture(scope="module")
def released(prepared: Installation) -> Installation:
    """An installation of the chart in a namespace that admits only pods of the Pod Security Standard `restricted`."""
    restricted = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    prepared.apply([manifest(resources.NAMESPACE, NAMESPACE, metadata=restricted)])
    prepared.apply([secret("capi-functions-storage", NAMESPACE, **KEYS)])
    with measured("release installed, pods Ready"):
        prepared.release()
    return prepared


def test_pods_stop_move_and_come_back(released: Installation, workload: Client) -> None:
    """No work is lost while the functions are scaled to 0, and none waits while a node is drained."""
    staying, leaving = (Addons(released, name, workload) for name in ("staying", "leaving"))
    for addons in (staying, leaving):
        addons.wants(kept="1", changed="1", dropped="1")

    scale(released, 0)
    until(lambda: not pods(released), "no pod is left")
    chosen = staying.offer(kept="1", changed="2", added="1")
    staying.choose(chosen)
    staying.drift("kept", "of somebody else")
    leaving.delete()
    with measured("changes made while scaled to 0"):
        scale(released, 2)
        staying.until_applied(chosen, kept="1", changed="2", added="1")
        leaving.until_gone()

    with measured("work goes on while the node is drained"):
        released.until_available(NAMESPACE)
        working = holder(released)
        released.kube("cordon", daemons.NAME)
        evict(released, working)
        until(lambda: working not in running(released), f"{working} is gone")
        (left,) = running(released)
        with pytest.raises(ApiError, match="disruption budget"):
            evict(released, left)
        staying.wants(kept="2")
    released.kube("uncordon", daemons.NAME)
    released.until_available(NAMESPACE)
    evict(released, left)
    until(lambda: left not in running(released), f"{left} is gone")
    staying.wants(kept="3")
    staying.remove()


def test_release_gets_another_mode(released: Installation, workload: Client, audit: AuditLog) -> None:
    """From one Deployment to one for each function, with rights of its own, and back; work goes on."""
    addons = Addons(released, "moved", workload)
    addons.wants(kept="1", changed="1")
    chosen = {"mode": "direct", "profile": "standalone"}
    with measured("upgrade to the mode direct in the middle of a rollout"):
        hook = Key(addons.namespace, "before")
        class_name = addons.offer(hook_pod(hook), kept="1", changed="2")
        addons.choose(class_name)
        until(lambda: workload.find(POD, hook), "the hook that the rollout waits for")
        released.release("upgrade", **chosen)
        assert addons.maps() == {"kept": "1", "changed": "1"}
        workload.patch(POD, hook, {"status": {"phase": "Succeeded"}}, subresource="status")
        addons.until_applied(class_name, kept="1", changed="2")
    assert NAME not in deployments(released)
    Addons(released, "new", workload).wants(kept="1")
    settings = [f"--set={name}={value}" for name, value in chosen.items()]
    rendered = yaml.safe_load_all(released.helm("template", NAME, CHART, *settings))
    prove(audit, [obj for obj in rendered if obj], removed=NAME)
    with measured("function without rights, until it has them again and its work is done"):
        class_name = addons.offer(kept="1", changed="3")
        with withdrawn_rights(released, "capi-functions-addon-apply"):
            addons.choose(class_name)
            missing = "the ServiceAccount may not delete, get, patch clusteraddons.clusterstack.x-k8s.io"
            until(
                lambda: missing in readiness(released, "addon-apply"),
                details=lambda: readiness(released, "addon-apply"),
            )
        addons.until_applied(class_name, kept="1", changed="3")
    with measured("upgrade to the mode single, addons upgraded"):
        released.release("upgrade")
        addons.wants(kept="2")
    assert "addon-apply" not in deployments(released)
    addons.remove()


def test_object_store_that_cannot_be_reached_is_named_and_waited_for(released: Installation, workload: Client) -> None:
    addons = Addons(released, "waiting", workload)
    addons.wants(kept="1")
    storage = {**released.settings["storage"], "S3_ENDPOINT_URL": f"http://{addresses.MACHINE}:1"}
    restart(released, settings={**released.settings, "storage": storage})
    assert "the object store cannot be used" in readiness(released, NAME)
    class_name = addons.offer(kept="2")
    addons.choose(class_name)
    until(lambda: "check S3_ENDPOINT_URL" in addons.condition("Ready")["message"], "reported", details=addons.addon)
    restart(released)
    addons.until_applied(class_name, kept="2")
    addons.remove()


def test_pod_keeps_releases_in_its_folder(released: Installation, workload: Client) -> None:
    folder = "/var/lib/store/objects"
    storage = {**released.settings["storage"], "CAPI_FUNCTIONS_STORE": f"file://{folder}"}
    restart(released, settings={**released.settings, "storage": storage})
    addons = Addons(released, "folder", workload)
    addons.wants(kept="1")
    code = f"import os; print(os.path.isdir({folder!r}) and os.listdir({folder!r}))"
    command = ("-c", "functions", "--", "python", "-c", code)
    stored = [released.kube("exec", "-n", NAMESPACE, key_of(pod).name, *command) for pod in pods(released)]
    assert any("'releases'" in names for names in stored), "the pod that works has fetched the release"
    addons.remove()
    restart(released)


def test_release_is_removed_and_installed_again(released: Installation, workload: Client) -> None:
    """Nothing is lost by `helm uninstall`: objects and addons stay, deletions wait, and the next release goes on."""
    client = released.client
    staying, leaving = (Addons(released, name, workload) for name in ("kept", "deleted"))
    for addons in (staying, leaving):
        addons.wants(kept="1", changed="1")
    before = staying.addon()["metadata"]["uid"]

    assert "cannot be imported into the current release" in refused(released, "another", "elsewhere")
    assert released.helm("list", "--all-namespaces", "--short").split() == [NAME]
    assert not list(client.list(DEPLOYMENT, "elsewhere"))

    released.helm("uninstall", NAME, f"--namespace={NAMESPACE}", "--wait")
    assert not deployments(released)
    assert not list(client.list(CLUSTER_ROLE, selector=f"app.kubernetes.io/part-of={NAME}"))
    assert client.get(SECRET, Key(NAMESPACE, "capi-functions-storage"))
    leaving.delete()
    assert dig(client.get(CLUSTER, leaving.cluster_key), "metadata.deletionTimestamp"), "it waits for its functions"
    assert staying.maps() == {"kept": "1", "changed": "1"}
    chosen = staying.offer(kept="1", changed="2")
    staying.choose(chosen)

    with measured("release installed again, what waited is done"):
        released.release()
        staying.until_applied(chosen, kept="1", changed="2")
        leaving.until_gone()
    assert staying.addon()["metadata"]["uid"] == before
    staying.remove()


def restart(installed: Installation, **values: Any) -> None:
    """Upgrades the release, and starts all pods anew."""
    installed.release("upgrade", **values)
    former = running(installed)
    installed.kill_pods(NAME)
    until(lambda: not former & running(installed), f"{former} are gone")
    installed.until_available(NAMESPACE)


def hook_pod(key: Key) -> Object:
    """Returns a Pod that has to succeed before the rest of its release is applied."""
    metadata = {"annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}}
    container = {"name": "c", "image": "example.com/image:1"}
    return manifest(POD, key.name, key.namespace, metadata=metadata, spec={"containers": [container]})


def readiness(installed: Installation, name: str) -> str:
    """Returns what a Deployment of ours says that it lacks."""
    service = installed.client.get(SERVICE, Key(NAMESPACE, name))
    return urllib3.request("GET", f"http://{service['spec']['clusterIP']}/readyz", timeout=60.0).data.decode()


@contextmanager
def withdrawn_rights(installed: Installation, name: str) -> Iterator[None]:
    """Deletes a ClusterRoleBinding for the block."""
    binding = installed.client.get(CLUSTER_ROLE_BINDING, Key("", name))
    installed.client.delete(CLUSTER_ROLE_BINDING, key_of(binding))
    try:
        yield
    finally:
        metadata = {field: binding["metadata"].get(field) for field in ("name", "labels", "annotations")}
        installed.client.apply(CLUSTER_ROLE_BINDING, {**binding, "metadata": metadata}, manager="helm")


def refused(installed: Installation, name: str, namespace: str) -> str:
    """Returns why Helm does not install a release."""
    program = [installed.helm_program, f"--kubeconfig={installed.node.kubeconfig}"]
    command = [*program, "install", name, CHART, f"--namespace={namespace}", "--create-namespace"]
    done = processes.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return str(done.stderr)


def deployments(installed: Installation) -> set[str]:
    return {obj["metadata"]["name"] for obj in installed.client.list(DEPLOYMENT, NAMESPACE)}


def scale(installed: Installation, replicas: int) -> None:
    installed.kube("scale", f"deployment/{NAME}", "-n", NAMESPACE, f"--replicas={replicas}")


def pods(installed: Installation) -> list[Object]:
    return list(installed.client.list(POD, NAMESPACE, selector=f"app.kubernetes.io/name={NAME}"))


def running(installed: Installation) -> set[str]:
    """Returns the names of the pods that are Ready and not ending."""
    return {
        pod["metadata"]["name"]
        for pod in pods(installed)
        if is_true(dig(pod, "status.conditions"), "Ready") and "deletionTimestamp" not in pod["metadata"]
    }


def holder(installed: Installation) -> str:
    """Returns the name of the pod whose forwarder delivers."""
    lease = installed.client.get(LEASE, Key(NAMESPACE, "forwarder"))
    return str(lease["spec"]["holderIdentity"]).partition("_")[0]


def evict(installed: Installation, pod: str) -> None:
    """Asks for the eviction of a pod, as `kubectl drain` does. Raises ApiError where a disruption budget forbids it."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    installed.client.once().request("POST", POD.path(NAMESPACE, pod, "eviction"), body=body)
