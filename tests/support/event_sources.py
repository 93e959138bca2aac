"""The two sources of events that an installation with Knative can have, as processes that can be killed and started."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from functions import catalog
from shared.kube import Client
from shared.kube.discovery import Discovery
from shared.triggers import Triggers
from tests.support import processes
from tests.support.knative_adapter import adapter, selectors, watches
from tests.support.until import logged, until


class EventSource(ABC):
    """Sends the changes that start the functions `declared` to `sink`, once it is started.

    Attributes:
        notices_what_it_missed: Whether it sends what changed while it was down.
    """

    notices_what_it_missed: ClassVar[bool]

    def __init__(self, client: Client, kubeconfig: Path, folder: Path, sink: str, declared: Mapping[str, Triggers]):
        self.client, self.kubeconfig, self.folder = client, kubeconfig, folder
        self.sink, self.declared = sink, declared
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    @abstractmethod
    def start(self) -> None:
        """Starts the processes, and returns once they watch."""

    def kill(self) -> None:
        """Kills the processes."""
        self.close()

    def close(self) -> None:
        """Kills the processes, whatever state they and the API server are in."""
        for process in self._running:
            process.kill()
            process.wait()
        self._running = []


class Adapters(EventSource):
    """What Knative runs for our two ApiServerSources: an adapter that sends objects, and one that sends references."""

    notices_what_it_missed = False

    def start(self) -> None:
        before = self._watches()
        modes = [reference for reference in (False, True) if selectors(self.declared, reference=reference)]
        logs = {reference: self.folder / f"adapter-{reference}.log" for reference in modes}
        self._running = [
            adapter(self.kubeconfig, self.sink, log, reference=reference, declared=self.declared)
            for reference, log in logs.items()
        ]
        # Before that it tries to listen at the dispatcher's port, which the dispatcher must not leave until then.
        until(lambda: all("STARTING" in log.read_text() for log in logs.values()), "the adapters start")
        until(lambda: all(now > before[kind] for kind, now in self._watches().items()), "the adapters watch")

    def kill(self) -> None:
        watching = self._watches() if self._running else {}
        self.close()
        until(
            lambda: all(now < watching.get(kind, now + 1) for kind, now in self._watches().items()),
            "the API server notices the end of the adapters",
        )

    def _watches(self) -> dict[tuple[str, str], int]:
        """Returns the number of watches of each kind that no program of Knative's broker watches, too."""
        discovery, counted = Discovery(self.client), watches(self.client)
        kinds = [r for mode in (False, True) for r in selectors(self.declared, reference=mode) if r.group]
        return {
            (r.group, r.plural): counted[r.group, r.plural]
            for r in kinds
            if discovery.resource(r.api_version, r.kind) is not None
        }


class ForwarderProcess(EventSource):
    """Our forwarder, without the standby that an installation has: nothing watches while it is killed.

    With `functions` it calls these, and receives events at the address `sink`.
    """

    notices_what_it_missed = True

    def __init__(
        self,
        client: Client,
        kubeconfig: Path,
        folder: Path,
        sink: str,
        declared: Mapping[str, Triggers],
        *,
        functions: str = "",
    ) -> None:
        super().__init__(client, kubeconfig, folder, sink, declared)
        self.functions = functions

    def start(self) -> None:
        log = self.folder / "forwarder.log"
        without = catalog.triggers().keys() - self.declared.keys()
        direct = [f"--functions={self.functions}", f"--port={urlsplit(self.sink).port}"]
        target = direct if self.functions else [f"--sink={self.sink}"]
        with log.open("wb") as output:
            process = processes.start(
                [sys.executable, "-m", "infra.forwarder", *target, f"--without={','.join(without)}"],
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running = [process]
        until(lambda: "all kinds are listed" in log.read_text(), "the forwarder watches", details=logged(log))
