"""How many connections a rollout opens to its workload cluster."""

from __future__ import annotations

import pytest

from shared.applier.rollout import thread_count


@pytest.mark.parametrize(("objects", "expected"), [(0, 1), (1, 1), (7, 1), (8, 2), (15, 3), (31, 7), (32, 8), (400, 8)])
def test_thread_count_grows_with_the_number_of_objects_up_to_eight(objects: int, expected: int) -> None:
    assert thread_count(objects) == expected
