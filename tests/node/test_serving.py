"""Functions as Knative Services on a real node: Knative Serving scales them to zero, and starts them for an event."""

from __future__ import annotations

import time

import pytest
import urllib3

from infra.node import knative
from shared.api.resources import CLUSTER_ADDON, CONFIG_MAP, POD
from shared.event import change_event
from shared.kube import Client, Key, deleting
from tests.support.node_addons import Addons
from tests.support.node_ingress import Gateway, gateway
from tests.support.node_installation import NAMESPACE, Installation, measured
from tests.support.until import until

pytestmark = pytest.mark.timeout(1200)

SETTINGS = {
    # The node has the images, and no registry tells their digests.
    "config-deployment": {"registries-skipping-tag-resolving": "index.docker.io"},
    "config-autoscaler": {"stable-window": "10s", "scale-to-zero-grace-period": "5s"},
}
PARTS = "services.serving.knative.dev,brokers,triggers,pingsources,sinkbindings"


def test_functions_scale_to_zero_and_back(installed: Installation, workload: Client) -> None:
    client = installed.client
    for part in (knative.EVENTING, knative.SERVING):
        installed.install_knative(part)
    for name, data in SETTINGS.items():
        client.patch(CONFIG_MAP, Key(knative.SERVING.namespace, name), {"data": data})
    with gateway(client) as entry:
        with measured("functions Ready as Knative Services"):
            installed.install("profiles/addons/serving")
            installed.kube("wait", "--for=condition=Ready", "--all", "-n", NAMESPACE, "--timeout=300s", PARTS)
        addons = Addons(installed, "served", workload)
        with measured("first addons Ready"):
            addons.wants(kept="1")
        until_zero(installed)
        with measured("upgrade, all functions at zero before"):
            addons.wants(kept="2")
        until_zero(installed)
        for _ in range(3):
            answer_from_zero(installed, addons, entry)
        burst(installed, workload)
        until_zero(installed)
        with measured("deletion, all functions at zero before"):
            addons.remove()


def pods(installed: Installation, service: str = "") -> set[str]:
    """Returns the names of the pods of one Knative Service, or of all, without those that are ending."""
    selector = "serving.knative.dev/service" + (f"={service}" if service else "")
    found = installed.client.list(POD, NAMESPACE, selector=selector)
    return {obj["metadata"]["name"] for obj in found if not deleting(obj)}


def until_zero(installed: Installation) -> None:
    until(lambda: not pods(installed), "no function has a pod", details=lambda: pods(installed))


def answer_from_zero(installed: Installation, addons: Addons, entry: Gateway) -> None:
    """Sends an event without work to a function without a pod, and prints how long the answer took."""
    until(lambda: not pods(installed, "addon-apply"), "addon-apply has no pod")
    addon = installed.client.get(CLUSTER_ADDON, addons.addon_key)
    event = change_event(
        {**addon, "apiVersion": CLUSTER_ADDON.api_version, "kind": "ClusterAddon"}, "add", source="/test"
    )
    headers, body = event.to_http()
    headers["Host"] = f"addon-apply.{NAMESPACE}.svc.cluster.local"
    for what in ("from zero", "from the pod that runs then"):
        started = time.monotonic()
        answer = urllib3.request("POST", entry.url, headers=headers, body=body, timeout=300.0, retries=False)
        print(f"answer {what}: {time.monotonic() - started:.2f} s")
        assert answer.status == 204, answer.data


def burst(installed: Installation, workload: Client) -> None:
    """Twelve Clusters at once: more events than the threads of one pod, and never more pods than allowed."""
    clusters = [Addons(installed, f"burst-{number}", workload) for number in range(12)]
    offered = [addons.offer(kept="1") for addons in clusters]
    most = 0

    def count() -> None:
        nonlocal most
        most = max(most, len(pods(installed, "addon-apply")))

    with measured("12 Clusters at once"):
        for addons, class_name in zip(clusters, offered, strict=True):
            addons.choose(class_name)
        for addons, class_name in zip(clusters, offered, strict=True):
            addons.until_applied(class_name, between=count, kept="1")
    print("most pods of addon-apply:", most)
    assert 1 <= most <= 4
    for addons in clusters:
        addons.delete()
    for addons in clusters:
        addons.until_gone()
