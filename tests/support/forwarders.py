"""Forwarders as processes that share a Lease, and the functions that they call."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.api.resources import CLUSTER, CLUSTER_ADDON, LEASE
from shared.event import Event
from shared.kube import Client, Key, Object, dig
from shared.runtime.answer import Answer
from tests.support import processes
from tests.support.event_receiver import EventReceiver

SECONDS = 6
"""The duration of the Lease: a busy machine must not make its holder lose it."""


def holder_of(client: Client, key: Key) -> str:
    return str(dig(client.find(LEASE, key), "spec.holderIdentity", ""))


def cluster(namespace: str, name: str) -> Object:
    metadata = {"namespace": namespace, "name": name}
    spec = {"topology": {"classRef": {"name": "docker-ferrol-1-27-v1"}}}
    return {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": metadata, "spec": spec}


def addon(namespace: str, cluster: str) -> Object:
    metadata = {"namespace": namespace, "name": f"cluster-addon-{cluster}"}
    reference = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "name": cluster}
    body = {"apiVersion": CLUSTER_ADDON.api_version, "kind": CLUSTER_ADDON.kind, "metadata": metadata}
    return body | {"spec": {"clusterRef": reference}}


class Deliveries:
    """What the forwarders `a` and `b` deliver to a receiver, which can refuse everything from `a`.

    It responds after `seconds`: the changes that wait for it are merged.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.refuses_a = False
        self.receiver = EventReceiver(self._answer)

    def _answer(self, path: str, _event: Event) -> Answer:
        time.sleep(self.seconds)
        return Answer(503) if path.startswith("a/") and self.refuses_a else Answer(204)

    def of(self, forwarder: str, change: str, name: str) -> list[Event]:
        return [
            event
            for path, event, _ in self.receiver.received
            if path.startswith(forwarder + "/") and (event.change, event.name) == (change, name)
        ]

    def deletion_of_addon(self, forwarder: str, cluster: str) -> bool:
        """Returns whether a function was reported to look for the deleted ClusterAddon of a Cluster.

        Both are one key of `addon_create`: the deletion, merged with a change of the Cluster, is a resync.
        """
        resyncs = [event for event in self.of(forwarder, "add", cluster) if event.resync]
        return bool(resyncs or self.of(forwarder, "delete", f"cluster-addon-{cluster}"))


@contextmanager
def forwarder_process(
    url: str, namespace: str, kubeconfig: Path, log: Path, *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a forwarder that posts to the functions at `url` while it holds the Lease `forwarder` of the namespace."""
    command = [sys.executable, "-m", "infra.forwarder", "--functions", url, "--namespace", namespace]
    command += ["--lease", f"{namespace}/forwarder", "--lease-seconds", str(SECONDS), *options]
    environment = {name: value for name, value in os.environ.items() if name != "K_SINK"}
    with log.open("wb") as output:
        process = processes.start(command, env=environment | {"KUBECONFIG": str(kubeconfig)}, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
