"""Which Clusters a rollout may change now, and why each other Cluster waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.rollouts import REST, Target, assess, forecast

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""A Thursday."""
DAILY = {"schedule": "0 10 * * *", "duration": "4h"}
CANARY = {"name": "canary", "clusterSelector": {"matchLabels": {"wave": "canary"}}}
MAIN = {"name": "main", "clusterSelector": {"matchLabels": {"wave": "main"}}}


def targets(text: str, wave: str = "", *, prefix: str = "") -> list[Target]:
    """Returns one target for each letter: outdated and `a`bsent, `o`utdated and ready, outdated and `b`roken, up to
    date but not `r`eady yet, up to date and `f`ailed, `d`one, `w`aiting for a dependency."""
    states: dict[str, Any] = {
        "a": (False, "absent"),
        "o": (False, "available"),
        "b": (False, "unavailable"),
        "r": (True, "unavailable"),
        "f": (True, "unavailable", "", True),
        "d": (True, "available"),
        "w": (False, "available", "a dependency"),
    }
    return [Target(f"{prefix or wave}{index}", {"wave": wave}, *states[letter]) for index, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("strategy", "state", "allowed"),
    [
        pytest.param({}, "oooo", "0123", id="all at once by default"),
        pytest.param({"maxUnavailable": 2}, "oooo", "01", id="number"),
        pytest.param({"maxUnavailable": "30%"}, "oooo", "01", id="percentage is rounded up"),
        pytest.param({"maxUnavailable": "1%"}, "oooo", "0", id="at least one"),
        pytest.param({"maxUnavailable": 2}, "rooo", "1", id="a changed target holds its slot until it is ready"),
        pytest.param({"maxUnavailable": 2}, "rroo", "", id="full: failures stop the rollout"),
        pytest.param({"maxUnavailable": 2}, "ddoo", "23", id="ready targets free their slots"),
        pytest.param({"maxUnavailable": 1}, "boob", "03", id="unavailable targets need no slot"),
        pytest.param({"maxUnavailable": 1}, "oa", "1", id="absent before available"),
        pytest.param({"maxUnavailable": 1}, "wo", "1", id="a dependency holds up no other target"),
        pytest.param({"paused": True}, "oab", "", id="paused"),
        pytest.param({"maxConsecutiveFailures": 2}, "ffoo", "", id="failures in a row stop the rollout"),
        pytest.param({"maxConsecutiveFailures": 2}, "frfo", "", id="a target in progress is skipped in the row"),
        pytest.param({"maxConsecutiveFailures": 2}, "fdfo", "3", id="a success ends the row"),
        pytest.param({"maxConsecutiveFailures": 2}, "fobo", "123", id="failures of a former spec do not count"),
        pytest.param({"windows": [DAILY]}, "oo", "01", id="open window"),
        pytest.param({"windows": [{**DAILY, "duration": "1h"}]}, "ob", "", id="closed window"),
        pytest.param({"windows": [{**DAILY, "duration": "1h"}, DAILY]}, "o", "0", id="one of two windows is open"),
        pytest.param({"windows": [{**DAILY, "schedule": "x * * * *"}]}, "o", "", id="a wrong window never opens"),
        pytest.param({"windows": []}, "o", "0", id="no window: always"),
    ],
)
def test_targets_that_may_be_changed(strategy: dict[str, Any], state: str, allowed: str) -> None:
    found = assess(strategy, targets(state, prefix="c"), NOW)
    assert found.allowed == {f"c{index}" for index in allowed}
    outdated = {target.name for target in targets(state, prefix="c") if not target.up_to_date}
    assert set(found.waiting) == outdated - found.allowed


@pytest.mark.parametrize(
    ("canary", "main", "rest", "allowed"),
    [
        pytest.param("oo", "oo", "o", {"canary0", "canary1"}, id="first partition first"),
        pytest.param("do", "oo", "o", {"canary1"}, id="not up to date"),
        pytest.param("dr", "oo", "o", set(), id="not ready"),
        pytest.param("dd", "oo", "o", {"main0", "main1"}, id="second partition"),
        pytest.param("dd", "dd", "o", {"0"}, id="Clusters without a partition come last"),
        pytest.param("", "oo", "o", {"main0", "main1"}, id="an empty partition holds up nothing"),
        pytest.param("rd", "dd", "b", set(), id="a partition that becomes unready stops what follows"),
    ],
)
def test_partitions_follow_each_other(canary: str, main: str, rest: str, allowed: set[str]) -> None:
    every = [*targets(canary, "canary"), *targets(main, "main"), *targets(rest)]
    assert assess({"partitions": [CANARY, MAIN]}, every, NOW).allowed == allowed


def test_reasons_name_partition_and_numbers() -> None:
    strategy = {"maxUnavailable": "50%", "partitions": [{**CANARY, "maxUnavailable": 1}, MAIN]}
    found = assess(strategy, [*targets("row", "canary"), *targets("o", "main"), *targets("o")], NOW)
    assert found.waiting == {
        "canary1": "1 of 3 Clusters of partition canary are unavailable, and at most 1 may be",
        "canary2": "a dependency",
        "main0": "partition canary is not up to date and ready yet",
        "0": "partition canary is not up to date and ready yet",
    }
    assert [one.dump() for one in found.partitions] == [
        {"name": "canary", "count": 3, "maxUnavailable": 1, "upToDate": 1, "unavailable": 1},
        {"name": "main", "count": 1, "maxUnavailable": 1, "upToDate": 0, "unavailable": 0},
        {"name": REST, "count": 1, "maxUnavailable": 1, "upToDate": 0, "unavailable": 0},
    ]


def test_partitions_that_overlap_or_are_empty_are_reported() -> None:
    every = {"name": "every", "clusterSelector": {}}
    found = assess({"partitions": [CANARY, every, MAIN]}, targets("oo", "canary"), NOW)
    assert found.problems == (
        "partition every selects Cluster canary0, which belongs to partition canary, and 1 more such Clusters",
        "partition main selects no Cluster",
    )
    assert found.allowed == {"canary0", "canary1"}


def test_partition_with_an_invalid_selector_selects_nothing() -> None:
    wrong = {"name": "wrong", "clusterSelector": {"matchExpressions": [{"key": "wave", "operator": "Has"}]}}
    found = assess({"partitions": [wrong, CANARY]}, targets("oo", "canary"), NOW)
    assert found.problems == ("partition wrong selects no Cluster",)


def test_holds_are_explained() -> None:
    closed = assess({"windows": [{**DAILY, "duration": "1h"}]}, targets("o"), NOW)
    assert closed.waiting == {"0": "no window is open until 2026-01-02T10:00Z"}
    assert closed.opens_at == datetime(2026, 1, 2, 10, tzinfo=UTC)
    never = assess({"windows": [{**DAILY, "schedule": "0 0 30 2 *"}]}, targets("o"), NOW)
    assert (never.waiting, never.opens_at) == ({"0": "no window will open again"}, None)
    failed = assess({"maxConsecutiveFailures": 2}, targets("ffo"), NOW)
    assert failed.waiting == {"2": "2 Clusters failed in a row, the last one is 1"}
    wrong = assess({"windows": [{**DAILY, "timeZone": "Mars"}]}, targets("o"), NOW)
    assert wrong.wrong_windows == (
        "timeZone 'Mars' is not a name in the IANA time zone database, such as Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("strategy", "canary", "main", "steps"),
    [
        pytest.param({}, "oo", "o", [("canary0", "canary1", "main0")], id="all at once"),
        pytest.param(
            {"partitions": [CANARY], "maxUnavailable": 1}, "oo", "o", ["canary0", "canary1", "main0"], id="waves"
        ),
        pytest.param({"partitions": [CANARY], "paused": True}, "o", "o", ["canary0", "main0"], id="as if resumed"),
        pytest.param({"partitions": [CANARY]}, "r", "o", ["main0"], id="an unready target becomes ready"),
        pytest.param({"partitions": [CANARY]}, "ow", "o", ["canary0"], id="a wait ends the forecast"),
        pytest.param({"partitions": [CANARY]}, "d", "d", [], id="nothing to do"),
        pytest.param({"windows": [{**DAILY, "duration": "1h"}]}, "o", "", ["canary0"], id="as if the window was open"),
        pytest.param({"maxConsecutiveFailures": 1}, "f", "o", ["main0"], id="as if failures were repaired"),
    ],
)
def test_forecast(strategy: dict[str, Any], canary: str, main: str, steps: list[Any]) -> None:
    found = forecast(strategy, [*targets(canary, "canary"), *targets(main, "main")], NOW)
    assert found == [(step,) if isinstance(step, str) else step for step in steps]


LETTERS = st.text("aobrdw", max_size=12)


@given(first=LETTERS, second=LETTERS, most=st.one_of(st.integers(1, 5), st.sampled_from(["1%", "34%", "100%"])))
def test_available_targets_beyond_the_limit_are_never_disturbed(first: str, second: str, most: int | str) -> None:
    every = [*targets(first, "canary"), *targets(second, "main")]
    found = assess({"maxUnavailable": most, "partitions": [CANARY, MAIN]}, every, NOW)
    by_name = {target.name: target for target in every}
    for partition in found.partitions:
        disturbed = {
            name for name in found.allowed & set(partition.unavailable) if by_name[name].state != "unavailable"
        }
        assert not disturbed or len(partition.unavailable) <= partition.max_unavailable
    assert found.allowed | set(found.waiting) == {target.name for target in every if not target.up_to_date}
    if any(not target.done for target in every if target.labels["wave"] == "canary"):
        assert not any(name.startswith("main") for name in found.allowed)
