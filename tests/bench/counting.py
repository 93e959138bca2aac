"""Counts requests and CPU by the servers' own metrics, so that every client is measured alike."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra import local_control_plane
from shared.kube import Client, connect

from .parts import cpu_seconds

_SAMPLE = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# Requests of the API server to itself.
_INTERNAL = {
    "leases",
    "flowschemas",
    "prioritylevelconfigurations",
    "servicecidrs",
    "ipaddresses",
    "apiservices",
    "openapi",
}

Requests = Counter[tuple[str, str]]
"""The number of requests by verb and resource (with subresource; empty for discovery)."""


@dataclass
class Server:
    """A running control plane in `directory`."""

    directory: Path
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = connect.from_kubeconfig(str(self.kubeconfig))

    @property
    def kubeconfig(self) -> Path:
        return local_control_plane.kubeconfig(self.directory)

    def requests(self) -> Requests:
        """Returns the requests so far; a watch counts when it ends."""
        counts: Requests = Counter()
        for labels, value in _SAMPLE.findall(self.client.text("/metrics", timeout=30)):
            of = dict(_LABEL.findall(labels))
            resource = "/".join(filter(None, (of["resource"], of["subresource"])))
            if resource.partition("/")[0] not in _INTERNAL and of["verb"] not in ("WATCH", "CONNECT"):
                verb = f"dry-run {of['verb']}" if of["dry_run"] else of["verb"]
                counts[verb, resource] += int(float(value))
        return counts

    def cpu(self) -> float:
        """Returns the CPU seconds of kube-apiserver and etcd so far."""
        supervisor = local_control_plane.status(self.directory).pid
        return cpu_seconds(supervisor) if supervisor else 0.0


@contextmanager
def servers(root: Path, *names: str) -> Iterator[Sequence[Server]]:
    """Yields new control planes."""
    directories = [root / name for name in names]
    try:
        for directory in directories:
            local_control_plane.start(directory, owner=os.getpid(), timeout=120)
        running = [Server(directory) for directory in directories]
        yield running
        for server in running:
            server.client.close()
    finally:
        for directory in directories:
            local_control_plane.stop(directory)


def by_verb(requests: Requests) -> str:
    """Returns text such as `3 GET, 1 POST`, in descending order."""
    verbs: Counter[str] = Counter()
    for (verb, _), count in requests.items():
        verbs[verb] += count
    return ", ".join(f"{count} {verb}" for verb, count in verbs.most_common()) or "none"
