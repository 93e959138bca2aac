"""Calls that arrive together share one reading, which begins after them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from shared.runtime.throttle import SharedRead


def test_calls_in_turn_read_each_time() -> None:
    numbers: Iterator[int] = count()
    shared: SharedRead[int] = SharedRead(pause=0.0)
    assert [shared.get(lambda: next(numbers)) for _ in range(3)] == [0, 1, 2]


def test_calls_during_a_reading_share_the_next_one() -> None:
    numbers, first, go = count(), threading.Event(), threading.Event()
    shared: SharedRead[int] = SharedRead(pause=0.2)

    def slow() -> int:
        first.set()
        go.wait()
        return next(numbers)

    with ThreadPoolExecutor(9) as pool:
        running = pool.submit(shared.get, slow)
        first.wait()
        waiting = [pool.submit(shared.get, lambda: next(numbers)) for _ in range(8)]
        go.set()
        assert running.result() == 0
        assert max(one.result() for one in waiting) <= 2, "eight calls read at most twice"


def test_failed_reading_is_not_kept() -> None:
    shared: SharedRead[int] = SharedRead(pause=0.0)
    with pytest.raises(ZeroDivisionError):
        shared.get(lambda: 1 // 0)
    assert shared.get(lambda: 1) == 1
