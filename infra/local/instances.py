"""Notices instances of KINDClusters that end, and sends an event for each, because no object changes then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from functions.kind_cluster.runtime import Runtime, RuntimeUnavailable
from shared.api.resources import KIND_CLUSTER
from shared.event import Event, change_event
from shared.kube import ApiError, Client

log = logging.getLogger("capi-functions.local")


class Instances:
    """Asks the runtimes for ended instances, between `start` and `stop`.

    Args:
        client: The management cluster, whose KINDClusters are listed once an instance has ended.
        submit: Takes the event of a KINDCluster whose instance has ended.
        runtimes: The runtimes, each with the seconds between two questions.
    """

    def __init__(self, client: Client, submit: Callable[[Event], object], runtimes: Mapping[Runtime, float]) -> None:
        self._client = client
        self._submit = submit
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(runtime, every), name="instances", daemon=True)
            for runtime, every in runtimes.items()
        ]

    def start(self) -> None:
        """Starts a thread for each runtime."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the threads, and waits for their end."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10)

    def _watch(self, runtime: Runtime, every: float) -> None:
        known: set[str] = set()
        while not self._stopped.wait(every):
            try:
                ended = set(runtime.ended())
                if news := ended - known:
                    self._report(news)
                known = ended
            except (RuntimeUnavailable, ApiError, OSError) as error:
                log.debug("looking for ended instances: %s", error)

    def _report(self, uids: set[str]) -> None:
        for obj in self._client.list(KIND_CLUSTER):
            if obj["metadata"]["uid"] in uids:
                named = {**obj, "apiVersion": KIND_CLUSTER.api_version, "kind": KIND_CLUSTER.kind}
                self._submit(change_event(named, "update", source="/instances"))
