"""What several runs of the tests on one machine share: ports, and things that a machine has only one of.

An abstract socket with its name reserves it; the kernel frees that with the process that holds it.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.support.until import until

KNATIVE_PORT = 8080
"""The port of Knative's in-memory dispatcher, a constant of its source. Adapters answer probes there, if they can."""

DOCKER_PORT = 19000
"""The port of docker's manager, which no flag changes."""
_BELOW_EPHEMERAL = [port for port in range(15000, 30000) if port != DOCKER_PORT]
"""The kernel gives none of these to a client, or to a server that asks for any port."""
_CHANCE = random.SystemRandom()
_reserved: list[socket.socket] = []


def free_port() -> int:
    """Returns a port that nobody listens on; it stays reserved for this process."""
    while True:
        port = _CHANCE.choice(_BELOW_EPHEMERAL)
        reservation = _reserve(f"port-{port}")
        if reservation is None:
            continue
        _reserved.append(reservation)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


@contextmanager
def exclusive(what: str) -> Iterator[None]:
    """Reserves `what`, such as "port-8080", for the duration of the block, once no other run of the tests has it."""
    with closing(until(lambda: _reserve(what), f"the end of another run's use of {what}", within=1200, pause=0.2)):
        yield


def _reserve(what: str) -> socket.socket | None:
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0capi-functions-tests-{what}")
    except OSError:
        reservation.close()
        return None
    return reservation
