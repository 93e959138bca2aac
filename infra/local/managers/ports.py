"""Finds free ports for the addresses of managers."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

PORTS = range(10_000, 19_000)
"""Below the ports of clients, and of the workload clusters of Cluster API's docker provider."""


def free_ports(preference: str) -> Iterator[int]:
    """Yields ports that nobody listens on; the same ones for the same `preference` while they are free."""
    for port in random.Random(preference).sample(PORTS, len(PORTS)):  # noqa: S311 - no secret
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a former run may be closing
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")
