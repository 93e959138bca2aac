"""A tenant with many Clusters whose events are sent again and again, as the forwarder does, until the block ends."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from events.delivery import Deliver, InProcessDelivery
from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, SECRET
from shared.clients import Clients
from shared.event import Event, change_event
from shared.kube import Client, Key
from tests.support import objects
from tests.support.hostile import HostileServer


class SlowServer(HostileServer):
    """A workload API server that answers each request after some seconds; it counts the requests in progress."""

    def __init__(self, seconds: float) -> None:
        super().__init__(self._answer, tls=True)
        self._seconds = seconds
        self._guard = threading.Lock()
        self.in_progress = self.most = 0

    def _answer(self, _path: str, closing: threading.Event) -> Iterator[bytes]:
        with self._guard:
            self.in_progress += 1
            self.most = max(self.most, self.in_progress)
        closing.wait(self._seconds)
        with self._guard:
            self.in_progress -= 1
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Tenant:
    """The events of a tenant's addons, and the answers so far by status."""

    events: Sequence[Event]
    answers: Counter[int] = field(default_factory=Counter)
    waiting: int = 0
    """Events that are being handled."""

    @contextmanager
    def sending(self, deliver: Deliver) -> Iterator[None]:
        """Sends each event in a thread of its own, and again a second after its answer at the latest."""
        ended, guard = threading.Event(), threading.Lock()

        def send(event: Event) -> None:
            while not ended.is_set():
                with guard:
                    self.waiting += 1
                answer = deliver("addon_apply", event)
                with guard:
                    self.waiting -= 1
                    self.answers[answer.status] += 1
                ended.wait(min(answer.retry_after or 0.2, 1.0))

        threads = [threading.Thread(target=send, args=(event,)) for event in self.events]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def tenant_with_clusters(client: Client, namespace: str, kubeconfigs: Sequence[bytes], class_name: str) -> Tenant:
    """Creates a Cluster with its addon for each kubeconfig."""
    create = InProcessDelivery(catalog.handler, Clients(client))
    events = []
    for number, kubeconfig in enumerate(kubeconfigs):
        name = f"cluster-{number}"
        client.apply(SECRET, objects.secret(f"{name}-kubeconfig", namespace, value=kubeconfig), manager="user")
        spec = {"topology": {"classRef": {"name": class_name}}}
        cluster = client.apply(CLUSTER, objects.manifest(CLUSTER, name, namespace, spec=spec), manager="user")
        create("addon_create", change_event(cluster, "update", source="/test"))
        addon = client.get(CLUSTER_ADDON, Key(namespace, f"cluster-addon-{name}"))
        events.append(change_event(addon, "update", source="/test", reference=True))
    return Tenant(events)
