"""The metrics of functions, as Prometheus scrapes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import urllib3
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.event import change_event
from shared.kube import Object
from tests.support.releases import write_release
from tests.support.until import HANGS
from tests.support.world import World

HTTP = urllib3.PoolManager(retries=False)
GONE: Object = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "very-own-name", "namespace": "very-own-namespace"},
}


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def scrape(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = HTTP.request("GET", f"{url}/metrics", timeout=HANGS)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.data.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def sample(scraped: Mapping[tuple[str, tuple[tuple[str, str], ...]], float], name: str, **labels: str) -> float:
    return scraped.get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.mark.parametrize("function", ["", "cluster"])
def test_15_deliveries_are_counted_and_served_at_metrics(function: str, kubeconfig: Path, tmp_path: Path) -> None:
    """An earlier addon manager had no metrics of its own, and served others at another address than configured."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "LOG_FORMAT": "json"}
    server = FunctionsServer(environment, tmp_path / "log", function=function)
    server.start()
    path = "" if function else "/cluster"
    try:
        assert sample(scrape(server.url), "capi_functions_addon_objects_total", outcome="applied") == 0.0
        headers, body = change_event(GONE, "update", source="/test").to_http()
        for wanted in (204, 204):
            assert HTTP.request("POST", server.url + path, headers=headers, body=body, timeout=HANGS).status == wanted
        assert HTTP.request("POST", server.url + path, body=b"nonsense", timeout=HANGS).status == 400
        found = scrape(server.url)
    finally:
        server.close()
    deliveries = "capi_functions_deliveries_total"
    assert sample(found, deliveries, function="cluster", outcome="done") == 2.0
    assert sample(found, deliveries, function="cluster", outcome="refused") == 1.0
    assert sample(found, "capi_functions_delivery_seconds_count", function="cluster") == 3.0
    assert sample(found, "capi_functions_api_requests_total", cluster="management", verb="GET") == 2.0
    assert "very-own" not in str(found)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert [(line["function"], line["status"]) for line in lines] == [("cluster", 204)] * 2 + [("cluster", 400)]
    assert lines[0]["name"] == "very-own-name"


def test_event_of_a_reconciled_object_counts_as_reconciled(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    answer = world.call("addon_apply", change_event(world.addon(), "update", source="/test"))
    assert answer.outcome == "reconciled"


COUNTED = (
    ("capi_functions_waited_seconds_count", {"function": "addon_apply", "condition": "ClusterStackReleaseDownloaded"}),
    ("capi_functions_release_fetches_total", {"outcome": "fetched"}),
    ("capi_functions_release_fetches_total", {"outcome": "failed"}),
    ("capi_functions_release_fetches_total", {"outcome": "present"}),
    ("capi_functions_api_requests_total", {"cluster": "workload", "verb": "PATCH"}),
)


def test_rollout_counts_waits_fetches_and_requests(world: World) -> None:
    before = [count(name, **labels) for name, labels in COUNTED]
    world.secret()
    cluster = world.cluster("test-stack-1-36-v1")
    world.call("addon_create", change_event(cluster, "add", source="/test"))
    wanted = world.call("addon_apply", change_event(cluster, "add", source="/test")).reply
    assert wanted is not None
    world.call("release_assets", wanted)
    write_release(world.releases, "v1", [world.map("a"), world.map("b")])
    fetched = [world.call("release_assets", wanted).reply for _ in range(2)][-1]
    assert fetched is not None
    assert world.call("addon_apply", fetched).status == 204
    after = [count(name, **labels) for name, labels in COUNTED]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1.0, 1.0, 1.0, 1.0, 2.0]


def test_labels_contain_no_names_but_those_of_functions(world: World) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]))
    world.secret()
    world.settle()
    of_forwarders = "capi_functions_forwarder"  # other tests have forwarders with functions of their own
    for family in REGISTRY.collect():
        is_ours = family.name.startswith("capi_functions") and not family.name.startswith(of_forwarders)
        for one in family.samples if is_ours else ():
            assert one.labels.get("function", "sweep") in catalog.names()
            assert world.namespace not in str(one.labels)
            assert "demo" not in one.labels.values()
