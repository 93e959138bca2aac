"""One budget of memory for all untrusted input that a process parses, so that its threads cannot multiply a limit.

Two bytes of JSON can take a hundred in memory. So each input is weighed before it is parsed, and a heavy input occupies
its weight of the budget until the parsed document is freed. An input waits while the budget is used up.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

MIB: Final = 1 << 20
MAX_INPUT: Final = 48 * MIB
"""The maximum weight of one input, in bytes. The objects of an API server have at most 3 MiB of JSON."""
LIGHT: Final = MIB // 8
"""Inputs of at most this weight are not counted, in bytes."""
_VALUE: Final = 80
"""The maximum number of bytes of a value in memory, apart from its text."""
_LEAST: Final = 2 * MAX_INPUT
_SECONDS: Final = 10.0
"""Seconds for which an input waits for others."""
_STRUCTURE: Final = b"{[,:"
"""The characters before each value in JSON, except the first value."""
_OTHERS: Final = bytes(set(range(256)) - set(_STRUCTURE))


class InputTooLarge(ValueError):
    """An input is refused because it would need too much memory; the message is a predicate."""


class MemoryBusy(Exception):
    """Other inputs have used up the budget: the same input may be parsed later."""


class MemoryBudget:
    """Counts the maximum bytes of the inputs in memory. Safe to share between threads."""

    def __init__(self, size: int, seconds: float = _SECONDS) -> None:
        self.size = size
        self.used = 0
        self._seconds = seconds
        self._changed = threading.Condition()  # reentrant, because garbage may be collected while it is held

    def acquire(self, weight: int) -> None:
        """Takes `weight` bytes from the budget. Raises `MemoryBusy` if other inputs do not return enough in time."""
        until = time.monotonic() + self._seconds
        with self._changed:
            while self.used + weight > self.size:
                if not self._changed.wait(until - time.monotonic()):
                    raise MemoryBusy(f"other inputs use {self.used // MIB} of {self.size // MIB} MiB of memory")
            self.used += weight

    def release(self, weight: int) -> None:
        """Returns bytes that `acquire` took."""
        with self._changed:
            self.used -= weight
            self._changed.notify_all()

    @contextmanager
    def reserved(self, weight: int) -> Iterator[None]:
        """Holds `weight` bytes. Raises `MemoryBusy`."""
        self.acquire(weight)
        try:
            yield
        finally:
            self.release(weight)

    @contextmanager
    def parsing(self, weight: int) -> Iterator[_Charge]:
        """Holds the weight of an input, afterwards for the life of a kept document. Raises `MemoryBusy`."""
        charge = _Charge(self, weight if weight > LIGHT else 0)
        if charge.weight:
            self.acquire(charge.weight)
        try:
            yield charge
        finally:
            if charge.weight:
                self.release(charge.weight)


class _Charge:
    """The weight of one input that is being parsed."""

    def __init__(self, budget: MemoryBudget, weight: int) -> None:
        self._budget = budget
        self.weight = weight

    def keep(self, document: Any) -> Any:
        """Returns the document; while it is in memory the budget counts the input, if it is heavy."""
        if not self.weight or not isinstance(document, dict):
            return document
        kept = _Kept(document)
        weakref.finalize(kept, self._budget.release, self.weight).atexit = False
        self.weight = 0
        return kept


class _Kept(dict[str, Any]):
    """A document with weak references; its copies are plain mappings."""

    __slots__ = ("__weakref__",)

    def __reduce_ex__(self, _protocol: object) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def weigh(text: bytes) -> int:
    """Returns the maximum bytes of a JSON text in memory: raw, decoded and parsed."""
    if len(text) * (_VALUE + 2) <= LIGHT:
        return 0  # whatever it contains
    # A decoded text, and each string in it, has one byte for a character in ASCII, else up to four.
    return len(text) * (3 if text.isascii() else 9) + len(text.translate(None, _OTHERS)) * _VALUE


def admitted(text: bytes) -> int:
    """Returns the weight of a text. Raises `InputTooLarge` if it is more than `MAX_INPUT`."""
    if (weight := weigh(text)) > MAX_INPUT:
        raise InputTooLarge(f"has {len(text)} bytes and needs more than {MAX_INPUT // MIB} MiB of memory")
    return weight


def loads(text: bytes, *, keep: bool = True) -> Any:
    """Parses JSON. With `keep`, the budget counts a mapping until it is freed.

    Raises `ValueError` or `RecursionError` for an invalid text, `InputTooLarge`, or `MemoryBusy`.
    """
    weight = admitted(text)
    if weight <= LIGHT:
        return json.loads(text)
    with BUDGET.parsing(weight) as charge:
        document = json.loads(text)
        return charge.keep(document) if keep else document


def _limit() -> int:
    """Returns the memory limit of this process's container in bytes; a large number if there is none."""
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(file) as limit:
            return int(limit.read())
    return 2048 * MIB


BUDGET: Final = MemoryBudget(max(_LEAST, min(_limit(), 2048 * MIB) // 4))
"""The budget of this process: a quarter of the memory of its container, at least two of the heaviest inputs."""


def _renew() -> None:
    """Gives a forked process an unused budget."""
    BUDGET.__init__(BUDGET.size)  # type: ignore[misc]


os.register_at_fork(after_in_child=_renew)
