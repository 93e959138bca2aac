"""Our functions and the manager of Cluster API Addon Provider Helm in turns, on the same HelmChartProxies.

The manager is built from its Go module, once. Like our functions it trusts the CA of the chart repository.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from functions import catalog
from infra.local_control_plane import go_build
from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.conditions import READY, is_true
from shared.api.resources import (
    CLUSTER,
    CONFIG_MAP,
    DEPLOYMENT,
    HELM_CHART_PROXY,
    HELM_RELEASE_PROXY,
    SECRET,
)
from shared.clients import Clients
from shared.download import web
from shared.event import change_event
from shared.kube import Key, Object, dig
from tests.support import objects, processes
from tests.support.chart_repository import ChartRepository
from tests.support.helm_releases import MAP, HelmWorld, packed
from tests.support.http_server import HttpServer
from tests.support.ports import free_port
from tests.support.registry import certificate
from tests.support.until import logged, until

MODULE = "sigs.k8s.io/cluster-api-addon-provider-helm@v0.6.4"
LABELS = {"charts": "yes"}
PROVIDER = {"cluster.x-k8s.io/provider": "helm"}
TWO = {"a.yaml": MAP.format("a-{{ .Release.Name }}"), "b.yaml": MAP.format("b-{{ .Release.Name }}")}


@dataclass
class Turns:
    """The HelmChartProxies `named` and `generated`, which select the Cluster `demo`, and both implementations."""

    world: HelmWorld
    kubeconfig: Path
    tls: Path
    manager: Path

    @contextmanager
    def caaph(self) -> Iterator[None]:
        """Runs the manager in the block, with a Deployment that shows it."""
        log = self.world.folder / "caaph.log"
        health = free_port()
        command = [
            str(self.manager),
            f"--namespace={self.world.namespace}",
            f"--health-addr=127.0.0.1:{health}",
            "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics",
            f"--webhook-port={free_port()}",
            f"--webhook-cert-dir={self.tls}",
        ]
        home = {"HOME": str(self.world.folder), "TMPDIR": str(self.world.folder), "PATH": os.environ["PATH"]}
        trust = {"KUBECONFIG": str(self.kubeconfig), "SSL_CERT_FILE": str(self.tls / "ca.crt")}
        with log.open("wb") as output:
            process = processes.start(command, env={**home, **trust}, stdout=output, stderr=subprocess.STDOUT)
        self._report_replicas(1)
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            self._report_replicas(0)

    def _report_replicas(self, replicas: int) -> None:
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
        key = Key(self.world.namespace, "caaph-controller-manager")
        self.world.client.patch(DEPLOYMENT, key, {"status": counts}, subresource="status")

    def wait(self, version: str) -> None:
        """Waits until CAAPH has deployed this version for both."""

        def reached() -> bool:
            found = list(self.world.client.list(HELM_RELEASE_PROXY, self.world.namespace))
            return len(found) == 2 and all(_is_ready(proxy, version) for proxy in found)

        until(reached, f"version {version}", details=logged(self.world.folder / "caaph.log"))

    def ours(self) -> list[str]:
        """Delivers to our functions what a sweep and the events that follow deliver; returns their messages."""
        clients, told = Clients(self.world.client), []
        for _ in range(3):
            for kind, function in ((HELM_CHART_PROXY, "helm_chart_proxy"), (HELM_RELEASE_PROXY, "helm_release_proxy")):
                for obj in list(self.world.client.list(kind, self.world.namespace)):
                    event = change_event(obj, "update", source="/test", resync=True)
                    answer = catalog.handler(function)(clients, event)
                    told.append(answer.message)
                    if answer.reply is not None:
                        catalog.handler("chart_assets")(clients, answer.reply)
        return told

    def workload(self) -> dict[str, Object]:
        """Returns all objects of the releases' namespace, as they are stored."""
        found = {}
        for kind in (CONFIG_MAP, SECRET):
            for obj in self.world.client.list(kind, self.world.releases):
                found[f"{kind.kind}/{obj['metadata']['name']}"] = obj
        return found

    def management(self) -> dict[str, Object]:
        """Returns both kinds of proxies, as they are stored."""
        return {
            obj["metadata"]["name"]: obj
            for kind in (HELM_CHART_PROXY, HELM_RELEASE_PROXY)
            for obj in self.world.client.list(kind, self.world.namespace)
        }

    def revisions(self) -> dict[str, list[tuple[int, str]]]:
        """Returns what the helm program shows: revisions and their status, by HelmChartProxy."""
        found = {}
        for proxy in self.world.client.list(HELM_RELEASE_PROXY, self.world.namespace):
            of, name = proxy["metadata"]["ownerReferences"][0]["name"], proxy["spec"]["releaseName"]
            listed = json.loads(self.world.helm("history", name, "--output", "json"))
            found[of] = [(one["revision"], one["status"]) for one in listed]
        return found


def _is_ready(proxy: Object, version: str) -> bool:
    observed = dig(proxy, "status.observedGeneration") == dig(proxy, "metadata.generation")
    ready = is_true(dig(proxy, "status.conditions"), READY) and dig(proxy, "status.status") == "deployed"
    return bool(observed and ready and dig(proxy, "spec.version") == version)


@pytest.fixture
def site(helm_world: HelmWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    certificate(helm_world.folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(helm_world.folder / "ca.crt"))
    web._context.cache_clear()
    repository = ChartRepository()
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        repository.add("web", version, packed(version, TWO))
    with repository.serve(helm_world.folder) as site:
        yield site
    web._context.cache_clear()


@pytest.fixture
def turns(helm_world: HelmWorld, kubeconfig: Path, site: HttpServer) -> Iterator[Turns]:
    world = helm_world
    labels = {"metadata": {"labels": {CLUSTER_NAME_LABEL: "demo"}}}
    world.client.patch(SECRET, Key(world.namespace, "demo-kubeconfig"), labels)
    world.client.patch(CLUSTER, world.cluster_key, {"metadata": {"labels": LABELS}})
    container = {"name": "manager", "image": "registry.example.com/manager"}
    pod = {"metadata": {"labels": PROVIDER}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": PROVIDER}, "template": pod}
    deployment = objects.manifest(
        DEPLOYMENT, "caaph-controller-manager", world.namespace, metadata={"labels": PROVIDER}, spec=spec
    )
    world.client.create(DEPLOYMENT, deployment)
    for name, release in (("named", {"releaseName": "web"}), ("generated", {})):
        spec = {
            "clusterSelector": {"matchLabels": LABELS},
            "chartName": "web",
            "repoURL": f"{site.url}/repo",
            "version": "1.0.0",
            "namespace": world.releases,
            "valuesTemplate": "x: {{ .Cluster.metadata.name }}\n",
            "options": {"timeout": "5m", "install": {"createNamespace": True}},
            **release,
        }
        world.client.create(HELM_CHART_PROXY, objects.manifest(HELM_CHART_PROXY, name, world.namespace, spec=spec))
    manager = go_build.of_module("caaph-manager", MODULE, print)
    yield Turns(world, kubeconfig, world.folder, manager)
    for name in ("named", "generated"):
        objects.remove(world.client, HELM_CHART_PROXY, Key(world.namespace, name))


@pytest.mark.timeout(3600)
def test_releases_change_hands_without_a_change_in_the_cluster(turns: Turns) -> None:
    first, upgraded = [(1, "deployed")], [(1, "superseded"), (2, "deployed")]
    with turns.caaph():
        turns.wait("1.0.0")
        before, proxies = turns.workload(), turns.management()
        assert all("reconciles this object" in told for told in turns.ours())
        assert (turns.workload(), turns.management()) == (before, proxies)
    assert turns.revisions() == {"named": first, "generated": first}

    specs = {name: obj["spec"] for name, obj in turns.management().items()}
    told = turns.ours()
    assert turns.workload() == before, told
    assert {name: obj["spec"] for name, obj in turns.management().items()} == specs
    taken = turns.management()
    turns.ours()
    assert turns.management() == taken, "nothing is written once the releases are taken over"
    assert all(is_true(dig(obj, "status.conditions"), READY) for obj in taken.values()), taken
    listed = json.loads(turns.world.helm("list", "--output", "json"))
    assert {(one["chart"], one["revision"], one["status"]) for one in listed} == {("web-1.0.0", "1", "deployed")}

    _ask_for(turns, "2.0.0")
    turns.ours()
    assert turns.revisions() == {"named": upgraded, "generated": upgraded}
    before = turns.workload()

    with turns.caaph():  # the way back
        until(lambda: _all_seen(turns), "CAAPH has looked at the releases")
        assert turns.workload() == before
        _ask_for(turns, "3.0.0")
        turns.wait("3.0.0")
    third = [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    assert turns.revisions() == {"named": third, "generated": third}, "one upgrade, so none at the start"


def _ask_for(turns: Turns, version: str) -> None:
    for name in ("named", "generated"):
        key = Key(turns.world.namespace, name)
        turns.world.client.patch(HELM_CHART_PROXY, key, {"spec": {"version": version}})


def _all_seen(turns: Turns) -> bool:
    """Returns whether the running manager has written a line about each release."""
    text = (turns.world.folder / "caaph.log").read_text()
    proxies = turns.world.client.list(HELM_RELEASE_PROXY, turns.world.namespace)
    return all(proxy["metadata"]["name"] in text for proxy in proxies)
