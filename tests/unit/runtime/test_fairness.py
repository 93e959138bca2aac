"""What one tenant may hold of threads and slots beside others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import pytest

from shared import fairness
from shared.fairness import Overdrawn, Shares, Turns, Use, next_turns

OLD = 30.0
BUSY = 1000.0


@pytest.mark.parametrize(
    ("use", "age", "exceeds"),
    [
        (Use(8), 0.0, False),
        (Use(8, [0.2] * 7), 0.0, False),  # many fast deliveries need no share
        (Use(8, [OLD] * 5), 0.0, False),
        (Use(8, [OLD] * 6), 0.0, True),  # a quarter is kept for newcomers
        (Use(8, [OLD] * 3, others=True), 0.0, False),
        (Use(8, [OLD] * 4, others=True), 0.0, True),
        (Use(8, [OLD] * 3 + [0.2] * 4, others=True), 0.0, False),
        (Use(8, used=39.0, others=True), 0.0, False),
        (Use(8, used=41.0, others=True), 0.0, True),
        (Use(8, used=BUSY), 0.0, False),  # nobody else is there
        (Use(8, used=BUSY, others=True), 2.0, False),  # it runs already, and holds one thread
        (Use(8, [OLD] * 7, others=True), 0.9, False),  # it may end soon
        (Use(8, [OLD] * 4, others=True), 1.0, True),
        (Use(8, [2.0] * 7, others=True), 3.0, False),  # the newer ones have to end
        (Use(8, [2.0] * 4 + [4.0] * 4, others=True), 3.0, True),
        (Use(1, [OLD], others=True), 0.0, True),
        (Use(1, others=True), 0.0, False),
        (Use(1), 0.0, False),
    ],
)
def test_delivery_beyond_the_share_ends(use: Use, age: float, exceeds: bool) -> None:
    assert use.exceeds(age) is exceeds


@pytest.mark.parametrize(
    ("waiting", "held", "size", "turns"),
    [
        ({"a": 5}, {}, 2, ["a"]),
        ({"a": 5}, {"a": 1}, 2, []),  # the other slot is for others
        ({"a": 5, "b": 1}, {"a": 1}, 2, ["b"]),
        ({"a": 5, "b": 1}, {}, 2, ["a", "b"]),
        ({"a": 5, "b": 1}, {}, 1, ["a"]),
        ({"a": 5}, {}, 1, ["a"]),
        ({"a": 1}, {"a": 2}, 3, []),
        ({"a": 1}, {"b": 2}, 3, ["a"]),
        ({"": 5}, {"": 1}, 2, [""]),  # the installation itself has all slots
        ({"a": 1}, {"b": 1, "c": 1}, 2, []),
    ],
)
def test_tenants_take_turns(waiting: dict[str, int], held: dict[str, int], size: int, turns: list[str]) -> None:
    assert next_turns(waiting, held, size) == turns


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_slow_deliveries_hold_half_of_the_threads_beside_another_tenant() -> None:
    clock = Clock()
    shares = Shares(8, clock)
    with ExitStack() as running:
        slow = []
        for _ in range(7):
            slow.append(running.enter_context(shares.delivery("hostile")))
            clock.now += 0.01
        clock.now += 5
        assert [shares.exceeds(one) for one in slow] == [False] * 6 + [True], "a quarter is kept for newcomers"
        with shares.delivery("good") as good:
            assert [shares.exceeds(one) for one in slow] == [False] * 4 + [True] * 3
            clock.now += 5
            assert not shares.exceeds(good)
        with pytest.raises(Overdrawn, match="namespace hostile uses more than its share"), shares.delivery("hostile"):
            pass
        with shares.delivery("good"), shares.delivery(""):
            pass
    clock.now += 100
    with shares.delivery("hostile"):
        pass


def test_used_seconds_are_forgotten() -> None:
    clock = Clock()
    shares = Shares(8, clock)
    with shares.delivery("good"):
        pass
    for _ in range(60):  # each is fast, and together they take six threads all the time
        with ExitStack() as running:
            for _ in range(6):
                try:
                    running.enter_context(shares.delivery("busy"))
                except Overdrawn:
                    break
            clock.now += 0.9
    with pytest.raises(Overdrawn), shares.delivery("busy"):
        pass
    clock.now += 10
    with shares.delivery("busy"):
        pass


def test_memory_of_tenants_is_bounded() -> None:
    clock = Clock()
    shares = Shares(8, clock)
    for number in range(5000):
        clock.now += 1
        with shares.delivery(f"namespace-{number}"):
            pass
    assert len(shares._used) < 100


def test_tenant_with_a_long_queue_leaves_a_slot_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "SHARES", shares := Shares(100))
    turns, order, started = Turns(2), [], Barrier(7)

    def work(tenant: str) -> None:
        with shares.delivery(tenant):
            started.wait(60)
            with turns.slot(60, TimeoutError()):
                order.append(tenant)
                assert turns._held["hostile"] <= 1

    with ThreadPoolExecutor(7) as threads:
        for done in [threads.submit(work, tenant) for tenant in ["hostile"] * 6 + ["good"]]:
            done.result(60)
    assert sorted(order) == ["good", *["hostile"] * 6]


def test_slot_that_does_not_become_free_is_refused() -> None:
    turns = Turns(1)
    with turns.slot(0.0, TimeoutError()), pytest.raises(TimeoutError), turns.slot(0.01, TimeoutError()):
        pass
    with turns.slot(0.0, TimeoutError()):
        pass
    assert not turns._waiting
    assert not turns._held
