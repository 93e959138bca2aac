"""The distribution of tests over worker processes."""

from __future__ import annotations

from pathlib import Path

from tests.support.scheduling import SECONDS, SPLIT, order, unit_of_work

PROJECT = Path(__file__).parents[3]


def test_listed_files_exist() -> None:
    assert [file for file in sorted({*SECONDS, *SPLIT}) if not (PROJECT / file).is_file()] == []


def test_longest_files_come_first_and_small_ones_last() -> None:
    ids = [
        "tests/unit/runtime/test_event.py::a",
        "tests/api/addons/test_addons.py::a",
        *(f"{file}::a" for file in SECONDS),
    ]
    assert sorted(ids, key=order) == [*(f"{file}::a" for file in sorted(SECONDS, key=order)), ids[1], ids[0]]
    assert SECONDS[min(SECONDS, key=order)] == max(SECONDS.values())


def test_file_goes_to_one_worker_unless_it_is_split() -> None:
    assert unit_of_work("tests/api/addons/test_addons.py::test_a[x::y]") == "tests/api/addons/test_addons.py"
    assert [unit_of_work(f"{file}::test_a[x]") for file in SPLIT] == [f"{file}::test_a[x]" for file in SPLIT]
