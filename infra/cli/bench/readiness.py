"""Follows the ClusterAddons of a load, and notes when each is Ready."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from shared.api.names import ADDON_PREFIX
from shared.api.resources import CLUSTER_ADDON
from shared.kube import ApiError, Client, Object, dig

from ..output import WaitTimeout, failing_condition
from ..text import plain
from . import PROGRESS_INTERVAL
from .load import Load

_WATCH = 60
_RETRY = 0.5


class Readiness:
    """Watches ClusterAddons in a thread, within a `with` block: polling would be a load of its own."""

    def __init__(self, client: Client, load: Load) -> None:
        self._client, self._load = client, load
        self._ended = threading.Event()
        self._end_watch: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="readiness", daemon=True)
        self._last: dict[str, Object] = {}
        self.ready: dict[str, float] = {}
        """When each Cluster's addons became Ready (monotonic seconds), by the name of the Cluster."""

    def __enter__(self) -> Readiness:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._end_watch()
        self._thread.join(5)

    def wait(self, within: float, progress: Callable[[str], None]) -> None:
        """Waits until all are Ready. Raises `WaitTimeout`, with the first condition that says why not."""
        deadline, reported_at, reported_count = time.monotonic() + within, time.monotonic(), 0
        while (count := len(self.ready)) < self._load.clusters:
            now = time.monotonic()
            if now > deadline:
                raise WaitTimeout(
                    f"{count} of {self._load.clusters} Clusters were Ready after {within:g} s; {self._obstacle()}"
                )
            if now - reported_at > PROGRESS_INTERVAL:
                progress(
                    f"{count} of {self._load.clusters} Ready"
                    + ("" if count > reported_count else f": {self._obstacle()}")
                )
                reported_at, reported_count = now, count
            self._ended.wait(0.1)

    def _obstacle(self) -> str:
        waiting = [addon for name, addon in dict(self._last).items() if name not in self.ready]
        return plain(failing_condition(*waiting)) or "do the functions run?"

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except ApiError:
                self._ended.wait(_RETRY)

    def _follow(self) -> None:
        version = ""
        for page in self._client.pages(CLUSTER_ADDON, self._load.namespace):
            version = page["metadata"]["resourceVersion"]
            for addon in page["items"]:
                self._note(addon)
        events = self._client.watch(
            CLUSTER_ADDON, self._load.namespace, version=version, seconds=_WATCH, on_open=self._opened
        )
        for event in events:
            if self._ended.is_set():
                return
            if event["type"] in ("ADDED", "MODIFIED"):
                self._note(event["object"])

    def _opened(self, end: Callable[[], None]) -> None:
        self._end_watch = end

    def _note(self, addon: Object) -> None:
        name = addon["metadata"]["name"].removeprefix(ADDON_PREFIX)
        self._last[name] = addon
        if dig(addon, "spec.clusterStack") == self._load.class_name and dig(addon, "status.ready") is True:
            self.ready.setdefault(name, time.monotonic())


def figures(created: Mapping[str, float], ready: Mapping[str, float]) -> dict[str, float]:
    """Returns seconds: until all are Ready, and of the clusters the median, the 99th percentile and the slowest."""
    seconds = sorted(ready[name] - at for name, at in created.items())

    def percentile(share: float) -> float:
        return seconds[math.ceil(share * len(seconds)) - 1]  # the nearest rank

    return {
        "seconds": max(ready.values()) - min(created.values()),
        "p50": percentile(0.5),
        "p99": percentile(0.99),
        "slowest": seconds[-1],
    }
