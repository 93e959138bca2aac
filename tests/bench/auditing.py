"""Control planes with an audit log: exact counts of the requests of measured programs, and the CPU of the servers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import local_control_plane
from infra.local_control_plane import controllers as controller_programs
from infra.local_control_plane.binaries import locate
from shared.kube import Client
from shared.kube.connect import inline_credentials

from .parts import cpu_seconds, rss_mib

_MEASURED = ("capi-functions", "Helm/", "kubectl/", "cluster-api", "caaph-")
"""How the user agents of measured programs begin: not those of the bench, of API servers and of controllers."""
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}
_VERBS = {"update": "PUT", "create": "POST", "deletecollection": "DELETE"}
_READS = {"GET", "LIST", "WATCH"}
_CONFLICT = 409

Requests = Counter[tuple[str, str]]
"""The number of requests by verb and resource (with subresource), or by verb and path."""


@dataclass(frozen=True)
class Tally:
    """Requests, and those of them that were answered with 409. A watch is a request."""

    requests: Requests = field(default_factory=Counter)
    conflicts: Requests = field(default_factory=Counter)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.requests - other.requests, self.conflicts - other.conflicts)

    @property
    def total(self) -> int:
        return self.requests.total()

    @property
    def writes(self) -> int:
        return sum(count for (verb, _), count in self.requests.items() if verb not in _READS)


class Plane:
    """A control plane in `directory`; the requests of `client` are not counted."""

    client: Client

    def __init__(self, directory: Path, *, controllers: bool = False) -> None:
        self.directory = directory
        self._controllers = controllers
        self._tally = Tally()
        self._read = 0
        self._seen: set[str] = set()

    def start(self) -> None:
        self.directory.mkdir(parents=True)
        wanted = ["etcd", "kube-apiserver", *(controller_programs.NAMES if self._controllers else ())]
        # The archive has no controllers, and controllers must not be newer than their API server.
        binaries = locate(wanted, progress=print, archives=() if self._controllers else None)
        binaries["kube-apiserver"] = self._audited(binaries["kube-apiserver"])
        local_control_plane.start(
            self.directory, owner=os.getpid(), timeout=120, binaries=binaries, controllers=self._controllers
        )
        self.client = Client(inline_credentials(self.kubeconfig.read_bytes()), user_agent="bench")

    def stop(self) -> None:
        local_control_plane.stop(self.directory)

    @property
    def kubeconfig(self) -> Path:
        return local_control_plane.kubeconfig(self.directory)

    def cpu(self) -> float:
        """Returns the CPU seconds of the servers so far."""
        supervisor = local_control_plane.status(self.directory).pid
        return cpu_seconds(supervisor) if supervisor else 0.0

    def memory(self) -> float:
        """Returns the memory of the servers in MiB."""
        supervisor = local_control_plane.status(self.directory).pid
        return rss_mib(supervisor) if supervisor else 0.0

    def tally(self) -> Tally:
        """Returns what measured programs requested so far. A watch counts when it begins."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # not yet complete
                self._read += len(line)
                self._count(json.loads(line))
        return Tally(self._tally.requests.copy(), self._tally.conflicts.copy())

    def _count(self, event: dict[str, Any]) -> None:
        # A watch has two lines: for its begin and its end.
        if not event.get("userAgent", "").startswith(_MEASURED) or event["auditID"] in self._seen:
            return
        self._seen.add(event["auditID"])
        of = event.get("objectRef", {})
        verb = _VERBS.get(event["verb"], event["verb"].upper())
        resource = "/".join(filter(None, (of.get("resource"), of.get("subresource"))))
        what = verb, resource or event["requestURI"].partition("?")[0]
        self._tally.requests[what] += 1
        if event.get("responseStatus", {}).get("code") == _CONFLICT:
            self._tally.conflicts[what] += 1

    @property
    def _log(self) -> Path:
        return self.directory / "audit.log"

    def _audited(self, apiserver: Path) -> Path:
        """Starts the API server with an audit log, in one file of any size."""
        policy, wrapper = self.directory / "audit.json", self.directory / "audited-apiserver"
        policy.write_text(json.dumps(_POLICY))
        flags = f'--audit-policy-file="{policy}" --audit-log-path="{self._log}" --audit-log-maxsize=100000'
        wrapper.write_text(f'#!/bin/sh\nexec "{apiserver}" "$@" {flags}\n')
        wrapper.chmod(0o755)
        return wrapper


@contextmanager
def planes(root: Path, *names: str, controllers: bool = False) -> Iterator[Sequence[Plane]]:
    """Yields new control planes."""
    made = [Plane(root / name, controllers=controllers) for name in names]
    try:
        for plane in made:
            plane.start()
        yield made
        for plane in made:
            plane.client.close()
    finally:
        for plane in made:
            plane.stop()


def by_verb(requests: Requests) -> str:
    """Returns text such as `3 GET, 1 POST`, in descending order."""
    verbs: Counter[str] = Counter()
    for (verb, _), count in requests.items():
        verbs[verb] += count
    return ", ".join(f"{count} {verb}" for verb, count in verbs.most_common()) or "none"
