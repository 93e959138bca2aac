"""Finds free ports for the addresses of managers."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator

PORTS = range(10_000, 19_000)
"""Below the ports of clients, and of the workload clusters of Cluster API's docker provider."""


def free_ports(preference: str) -> Iterator[int]:
    """Yields ports that nobody listens on; the same ones for the same `preference` while they are free."""
    yield from filter(is_free, random.Random(preference).sample(PORTS, len(PORTS)))  # noqa: S311 - no secret
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free for a manager: end another run")


def is_free(port: int) -> bool:
    """Returns whether nobody listens on a port, at any address of IPv4 or IPv6."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a former run's connections may be closing
                probe.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # a machine without this family
                return False
    return True
