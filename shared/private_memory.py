"""Hides the memory and the environment of this process from other processes of the same user, in pods.

There, workers that render charts run as the same user, because an unprivileged process cannot change its user.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_DUMPABLE = 4


def hide_in_pods() -> None:
    """Forbids other processes without privileges to read this one's memory (prctl(2), `PR_SET_DUMPABLE`).

    Children that execute no program inherit this. Outside of pods debuggers stay useful.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
