"""The functions are killed at writes of an addon's life: the end is always the same, and nothing is left over.

A kill right after a write is nearly the same as one right before the next write, but for what the user does meanwhile:
where another release is wanted when the functions are back, nobody finishes what was begun.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.kube import Client
from shared.storage import ObjectStore
from tests.support.addon_journey import AddonJourneys
from tests.support.kill_points import check_kills, in_parts, killable_functions

VARIANTS = ((True, ""), (False, "another release"), (False, ""))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 4)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("in_stages", [False, True], ids=["umbrella chart", "stages"])
def test_addon_ends_the_same_when_functions_are_killed_at_a_write(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    in_stages: bool,
    part: tuple[int, int],
) -> None:
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:
        journeys = AddonJourneys(functions, management, in_stages=in_stages)
        # The umbrella chart has every kind of write already.
        check_kills(journeys.take, VARIANTS, pytestconfig, part, most=4 if in_stages else None)
