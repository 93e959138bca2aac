"""Follows the ClusterAddons of a load, and notes when each is Ready."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from shared.api.names import ADDON_PREFIX
from shared.kube import Client, Object, dig

from ..addon_watcher import AddonWatcher
from ..text import plain
from ..waiting import WaitTimeout, failing_condition
from . import PROGRESS_INTERVAL
from .load import Load


class Readiness(AddonWatcher):
    """Notes when the addons of each Cluster become Ready."""

    def __init__(self, client: Client, load: Load) -> None:
        super().__init__(client, load.namespace, self._keep)
        self._load = load
        self._last: dict[str, Object] = {}
        self.ready: dict[str, float] = {}
        """When each Cluster's addons became Ready (monotonic seconds), by the name of the Cluster."""

    def wait(self, within: float, progress: Callable[[str], None]) -> None:
        """Waits until all are Ready. Raises `WaitTimeout`, with the first condition that explains the failure."""
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
            time.sleep(0.1)

    def _obstacle(self) -> str:
        waiting = [addon for name, addon in dict(self._last).items() if name not in self.ready]
        return plain(failing_condition(*waiting)) or "do the functions run?"

    def _keep(self, addon: Object) -> None:
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
