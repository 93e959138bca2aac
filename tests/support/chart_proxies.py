"""A namespace with Clusters and HelmChartProxies on a real API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions import catalog
from shared import wake
from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Client, Key, Object
from shared.runtime import Answer
from tests.support import objects
from tests.support.event_receiver import EventReceiver

REPOSITORY = {"chartName": "metrics", "repoURL": "https://charts.example.org"}


@dataclass
class Charts:
    """A namespace with Clusters and HelmChartProxies."""

    client: Client
    clients: Clients
    namespace: str
    sink: EventReceiver
    answers: list[Answer] = field(default_factory=list)

    def cluster(self, name: str, domain: str = "cluster.local", **labels: str) -> Object:
        spec = {"clusterNetwork": {"serviceDomain": domain}}
        return self.client.create(
            CLUSTER, objects.manifest(CLUSTER, name, self.namespace, metadata={"labels": labels}, spec=spec)
        )

    def proxy(self, name: str = "metrics", **spec: Any) -> Object:
        wanted = {"clusterSelector": {"matchLabels": {"metrics": "yes"}}, **REPOSITORY, **spec}
        return self.client.create(
            HELM_CHART_PROXY, objects.manifest(HELM_CHART_PROXY, name, self.namespace, spec=wanted)
        )

    def reconcile(self, name: str = "metrics") -> Object | None:
        """Delivers an event about the HelmChartProxy; returns what is stored then."""
        key = Key(self.namespace, name)
        self.send("helm_chart_proxy", change_event(self.client.get(HELM_CHART_PROXY, key), "update", source="/test"))
        return self.client.find(HELM_CHART_PROXY, key)

    def send(self, function: str, event: Event) -> Answer:
        answer = catalog.handler(function)(self.clients, event)
        assert answer.status in (200, 202, 204), answer.message
        self.answers.append(answer)
        return answer

    def wake(self, cluster: Object) -> list[tuple[str, str]]:
        """Delivers a change of a Cluster, and the events that follow; returns kind and name of the woken objects."""
        self.sink.received.clear()
        self.send("cluster_wake", change_event(cluster, "update", source="/test"))
        woken = [event for _, event, _ in self.sink.received]
        for event in woken:
            assert event.type == wake.CHANGED
            if event.kind == HELM_CHART_PROXY.kind:
                self.send("helm_chart_proxy", event)
        return sorted((event.kind, event.name) for event in woken)

    def patch(self, resource: Any, name: str, patch: Object, subresource: str = "") -> Object:
        return self.client.patch(resource, Key(self.namespace, name), patch, subresource=subresource)

    def releases(self) -> dict[str, Object]:
        """Returns the HelmReleaseProxies by Cluster."""
        found = self.client.list(HELM_RELEASE_PROXY, self.namespace)
        return {release["spec"]["clusterRef"]["name"]: release for release in found}

    def report(self, status: str = "True", message: str = "") -> None:
        """Reports the condition Ready of all releases, as `helm_release_proxy` does."""
        for release in self.releases().values():
            condition = {"type": "Ready", "status": status, "reason": "R", "message": message}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            observed = release["metadata"]["generation"]
            body = {"status": {"observedGeneration": observed, "conditions": [condition]}}
            self.patch(HELM_RELEASE_PROXY, release["metadata"]["name"], body, "status")
