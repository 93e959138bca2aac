"""An ingress for Knative Serving on a node: a proxy on this machine, in place of those that Knative ships elsewhere.

It sends a request where Serving's `Ingress` of the host says: to the pods of a revision, or to Serving's activator
while there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread

import urllib3

from infra.node import addresses
from shared.api.resources import NAMESPACE, SERVICE
from shared.kube import Client, Key, NotFound, Object, Resource, Unavailable, dig, key_of
from tests.support.http_server import HttpServer, Request, Response
from tests.support.objects import manifest

INGRESS = Resource("networking.internal.knative.dev", "v1alpha1", "Ingress", "ingresses")
_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
_WHERE = Key("kourier-system", "kourier-internal")
_SECONDS = 600
_OF_CONNECTION = ("Connection", "Transfer-Encoding", "Content-Length")


class Gateway:
    """The proxy. `url` is its address, for requests with the host of a Knative Service."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._backends: dict[str, Object] = {}
        """The first backend of each host: all traffic goes to the newest revision."""
        self._pool = urllib3.PoolManager(maxsize=64, timeout=_SECONDS, retries=False)
        self.server = HttpServer(self._forward, address=addresses.MACHINE)

    @property
    def url(self) -> str:
        return self.server.url

    def follow(self, on_open: Callable[[Callable[[], None]], None]) -> None:
        """Takes over each Ingress, and reports that it is Ready, until the watch is ended."""
        for event in self._client.watch(INGRESS, version="", seconds=_SECONDS * 6, on_open=on_open):
            ingress = event["object"]
            for rule in dig(ingress, "spec.rules", []):
                for host in rule["hosts"]:
                    self._backends[host] = rule["http"]["paths"][0]["splits"][0]
            is_new = dig(ingress, "status.observedGeneration") != dig(ingress, "metadata.generation")
            if event["type"] in ("ADDED", "MODIFIED") and is_new:
                with suppress(NotFound):
                    self._client.patch(INGRESS, key_of(ingress), {"status": _ready(ingress)}, subresource="status")

    def _forward(self, request: Request) -> Response:
        backend = self._backends.get(request.headers["Host"].partition(":")[0])
        if backend is None:
            return Response(404)
        service = self._client.get(SERVICE, Key(backend["serviceNamespace"], backend["serviceName"]))
        url = f"http://{service['spec']['clusterIP']}:{backend['servicePort']}{request.path}"
        headers = {**request.headers, **backend.get("appendHeaders", {})}
        answer = self._pool.request("POST" if request.body else "GET", url, body=request.body, headers=headers)
        kept = {name: value for name, value in answer.headers.items() if name.title() not in _OF_CONNECTION}
        return Response(answer.status, answer.data, kept)


@contextmanager
def gateway(client: Client) -> Iterator[Gateway]:
    """Runs the ingress in the block, behind the Service that Serving's routes point to."""
    found = Gateway(client)
    with found.server:
        client.apply(NAMESPACE, manifest(NAMESPACE, _WHERE.namespace), manager="user")
        ports = [{"name": "http", "port": 80}]
        client.apply(SERVICE, manifest(SERVICE, _WHERE.name, _WHERE.namespace, spec={"ports": ports}), manager="user")
        metadata = {"labels": {"kubernetes.io/service-name": _WHERE.name}}
        endpoints = {
            "addressType": "IPv4",
            "endpoints": [{"addresses": [addresses.MACHINE]}],
            "ports": [{"name": "http", "port": int(found.url.rpartition(":")[2]), "protocol": "TCP"}],
        }
        slice_ = manifest(_SLICE, _WHERE.name, _WHERE.namespace, metadata=metadata, **endpoints)
        client.apply(_SLICE, slice_, manager="user")
        ends: list[Callable[[], None]] = []
        thread = Thread(target=_until_ended, args=[partial(found.follow, ends.append)])
        thread.start()
        try:
            yield found
        finally:
            ends[-1]()
            thread.join()


def _until_ended(follow: Callable[[], None]) -> None:
    with suppress(Unavailable):  # the end of a watch in another thread breaks it
        follow()


def _ready(ingress: Object) -> Object:
    where = {"ingress": [{"domainInternal": f"{_WHERE.name}.{_WHERE.namespace}.svc.cluster.local"}]}
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("NetworkConfigured", "LoadBalancerReady", "Ready")
    ]
    return {
        "observedGeneration": ingress["metadata"]["generation"],
        "conditions": conditions,
        "publicLoadBalancer": where,
        "privateLoadBalancer": where,
    }
