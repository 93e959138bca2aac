"""Limits the number of concurrent untrusted calls, because their memory limits add up.

Tenants take turns, and each leaves a slot for the others.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from ..fairness import Turns
from ..kube.errors import Unavailable

MAX_CONCURRENT = 2
MAX_SLOT_WAIT = 30.0
"""The longest time, in seconds, that a call waits for a slot."""


class Busy(Unavailable):
    """All slots are taken by other calls: the same call may succeed later."""


_slots = Turns(MAX_CONCURRENT)


def slot() -> AbstractContextManager[None]:
    """Holds one slot. Raises `Busy` if none becomes free within `MAX_SLOT_WAIT` seconds."""
    message = f"other charts and expressions have been running for {MAX_SLOT_WAIT:g} s"
    return _slots.slot(MAX_SLOT_WAIT, Busy(message, retry_after=5.0))


def _renew() -> None:
    """Gives a forked process slots of its own, because slots taken at the fork would never become free."""
    global _slots
    _slots = Turns(MAX_CONCURRENT)


os.register_at_fork(after_in_child=_renew)
