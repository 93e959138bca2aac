"""Faults inside a functions process: a wrong clock, and name resolution that fails.

Python imports this module at its start, if its folder is in PYTHONPATH. The folder `CAPI_FUNCTIONS_TEST_FAULTS` has a
file for each present fault, so that faults come and go while the process runs.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import socket
import time
from datetime import datetime as RealDatetime
from pathlib import Path
from typing import Any


def install(folder: Path) -> None:
    real_time, real_getaddrinfo = time.time, socket.getaddrinfo

    def seconds() -> float:
        """The seconds that the clock is ahead."""
        try:
            return float((folder / "clock").read_text())
        except (OSError, ValueError):
            return 0.0

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, RealDatetime)

    class ShiftedDatetime(RealDatetime, metaclass=Meta):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return RealDatetime.now(tz) + datetime.timedelta(seconds=seconds())

        @classmethod
        def fromisoformat(cls, text: str) -> Any:
            return RealDatetime.fromisoformat(text)

    def shifted_time() -> float:
        return real_time() + seconds()

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if (folder / "dns").exists() and host in ("localhost", b"localhost"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real_getaddrinfo(host, *arguments, **options)

    datetime.datetime = ShiftedDatetime  # type: ignore[misc]
    time.time = shifted_time
    socket.getaddrinfo = getaddrinfo

    # A fraction of the usual times, so that tests of slow servers are faster.
    from shared import buckets
    from shared.kube import client, transport

    defaults = client.Client.__init__.__kwdefaults__
    assert defaults is not None
    buckets.CONNECT_TIMEOUT, buckets.READ_TIMEOUT, buckets.TOTAL_TIMEOUT = 0.5, 1.0, 2.0
    defaults["timeout"] = (0.5, 1.5)
    transport.LIMITS = {name: dataclasses.replace(limits, seconds=2.5) for name, limits in transport.LIMITS.items()}


if chosen := os.environ.get("CAPI_FUNCTIONS_TEST_FAULTS"):
    install(Path(chosen))
