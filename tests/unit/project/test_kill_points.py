"""The choice of kill points, and journeys that end before theirs."""

from __future__ import annotations

from random import Random

from tests.support.api_proxy import Request
from tests.support.kill_points import KillPoint, TooFewWrites, failures_at, one_of_each_kind

WRITES = [
    Request(number, method, path, {}, b"")
    for number, (method, path) in enumerate(
        [
            ("POST", "/api/v1/namespaces/n/secrets"),
            ("PATCH", "/apis/a/v1/namespaces/n/clusters/c/status"),
            ("PATCH", "/apis/a/v1/namespaces/n/clusters/d/status"),
        ],
        1,
    )
]


def test_one_write_of_each_kind_is_chosen() -> None:
    chosen = {tuple(one_of_each_kind(WRITES, Random(seed))) for seed in range(20)}
    assert chosen == {(1, 2), (1, 3)}


def test_journey_that_ends_before_its_kill_is_taken_again_to_its_last_write() -> None:
    taken: list[int] = []

    def journey(point: KillPoint) -> None:
        taken.append(point.number)
        if point.number > 2:
            raise TooFewWrites(2)

    assert failures_at([KillPoint(3, before=True)], WRITES, journey) == []
    assert taken == [3, 2]


def test_journeys_that_never_reach_their_kill_fail() -> None:
    def journey(_point: KillPoint) -> None:
        raise TooFewWrites(1)

    [failure] = failures_at([KillPoint(3, before=True)], WRITES, journey)
    assert "three journeys ended before the kill" in failure
