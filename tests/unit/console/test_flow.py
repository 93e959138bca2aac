"""The flow of events: the log of functions as a page, and dead letters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.console.flow import Flow, RunLog
from infra.console.pages import Source
from infra.console.server import serving
from infra.operations import deliveries
from infra.operations.deliveries import Delivery
from shared.dead_letters import DeadLetters, dead_letter
from shared.event import DeliveryFailure, change_event
from shared.storage import ObjectStore
from tests.support.console import get

LINE = (
    "2026-01-31 12:00:00,123 INFO addon_apply ClusterAddon team/a update -> 202 again in 10s 12.3ms stage=cni waiting"
)
FAILED = "2026-01-31 12:00:01,000 WARNING cluster Cluster team/b -> 500 1.0ms KeyError"
HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            LINE,
            Delivery(
                "2026-01-31 12:00:00",
                "addon_apply",
                "ClusterAddon team/a update",
                202,
                "again in 10s 12.3ms stage=cni waiting",
            ),
        ),
        (
            '{"function": "sweep", "status": 204, "seconds": 0.5, "kind": "", "type": "t", "namespace": "", "name": "",'
            ' "message": "m", "time": "2026-01-31T12:00:00.000Z", "again": 5}',
            Delivery("2026-01-31T12:00:00.000Z", "sweep", "t", 204, "again in 5s 500.0ms m"),
        ),
        ("2026-01-31 12:00:00,123 INFO no_function X y -> 204 1ms", None),
        ("2026-01-31 12:00:00,123 INFO sweep X y -> 20", None),
        ("2026-01-31 12:00:00,123 INFO started", None),
        ("Traceback (most recent call last):", None),
        ('{"function": ["sweep"], "status": 204}', None),
        ('{"function": "sweep", "status": 204, "seconds": "x"}', None),
        ("{" + '"a":{' * 5_000, None),
        ("", None),
    ],
)
def test_lines_of_the_log_are_parsed(line: str, found: Delivery | None) -> None:
    assert list(deliveries.parse([line])) == ([found] if found else [])


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "done"), (204, "done"), (202, "waiting"), (503, "transient"), (400, "refused"), (500, "failed")],
)
def test_status_means_an_outcome(status: int, outcome: str) -> None:
    assert Delivery("", "sweep", "", status).outcome == outcome


def test_end_of_a_long_log_is_read_without_the_cut_line(tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{LINE}\n" * 3 + f"{FAILED}\n")
    found = deliveries.read(log, len(FAILED) + 2 + len(LINE))
    assert [one.function for one in found] == ["cluster"]
    assert deliveries.read(tmp_path / "absent") == []


def test_summary_has_the_newest_failure_of_each_function() -> None:
    newest_first = list(deliveries.parse([FAILED, FAILED.replace("500", "204"), LINE]))
    addon_apply, cluster = deliveries.summarize(newest_first)
    assert (addon_apply.counts, addon_apply.failure) == ({"waiting": 1}, None)
    assert (cluster.counts, cluster.failure) == ({"failed": 1, "done": 1}, newest_first[0])


def test_page_shows_deliveries_failures_and_dead_letters(source: Source, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{LINE}\n{FAILED} {HOSTILE}\n")
    letters = DeadLetters(ObjectStore(f"file://{tmp_path}/store"))
    reference = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": HOSTILE, "namespace": "a"},
    }
    event = change_event(reference, "update", source="/test")
    failure = DeliveryFailure("http://addon-create.x.svc", 400, HOSTILE)
    letters.keep(dead_letter(replace(event, failure=failure), datetime.now(UTC)))
    with serving(replace(source, flow=Flow(RunLog(log), lambda: letters))) as address:
        text = get(address, "flow").text
        assert HOSTILE not in text
        for shown in (
            "ClusterAddon team/a update",
            "again in 10s",
            "500 failed",
            "KeyError",
            "addon_create",
            "2 in the newest",
        ):
            assert shown in text
        assert "1 in the newest" in get(address, "flow?q=team/a").text
        assert "0 in the newest" in get(address, "flow?q=team/a&outcome=done").text


def test_page_of_a_cluster_that_does_not_answer_says_so(address: str) -> None:
    page = get(address, "flow")
    assert page.status == 200
    assert page.text.count('<p class="problem">http://127.0.0.1:1 does not answer') == 2


def test_newest_deliveries_of_several_logs_are_kept() -> None:
    stamped = [("3", LINE), ("1", LINE), ("4", "no delivery"), ("2", FAILED)]
    assert [one.function for one in deliveries.newest(stamped, 2)] == ["addon_apply", "cluster"]
