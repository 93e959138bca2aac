"""When a forwarder counts as hung, as not ready and as dead, and how the probes say so."""

from __future__ import annotations

import time

import pytest
import urllib3

from events.health import Activity, CallHealth, KindHealth, dead, problems, unready
from events.probes import Probes

NOW = 1000.0
A, B = KindHealth("A", True, NOW + 1), KindHealth("B", True, NOW + 1)
SILENT = KindHealth("A", True, NOW - 1)
UNLISTED = KindHealth("A", False, NOW + 1)
CASES = [
    ("all answer", Activity([A, B], progress=NOW), [], [], []),
    ("nothing is watched", Activity([], progress=NOW), [], [], []),
    ("one kind is silent", Activity([SILENT, B], progress=NOW), ["watch"], ["watch"], ["watch"]),
    ("all are silent: a restart does not help", Activity([SILENT], progress=NOW), ["watch"], ["watch"], []),
    ("a kind is not listed", Activity([UNLISTED, B], progress=NOW), [], ["list"], []),
    ("a call goes on", Activity([A], [CallHealth("f", NOW - 300)], 300.0, NOW - 300), [], [], []),
    ("a call hangs", Activity([A], [CallHealth("f", NOW - 400)], 1.0, NOW), ["worker"], ["worker"], ["worker"]),
    ("a long queue that moves", Activity([A], [], 5000.0, NOW - 1), [], [], []),
    ("a queue that stands", Activity([A], [], 400.0, NOW - 400), ["queue"], ["queue"], ["queue"]),
    ("nothing to do for hours", Activity([A], [], 0.0, NOW - 9000), [], [], []),
    ("a thread has ended", Activity([A], progress=NOW, workers=False), ["worker"], ["worker"], ["worker"]),
]


@pytest.mark.parametrize(
    ("activity", "hung", "not_ready", "restarted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_forwarder_is_judged_by_its_watches_deliveries_and_queue(
    activity: Activity, hung: list[str], not_ready: list[str], restarted: list[str]
) -> None:
    for judgement, expected in ((problems, hung), (unready, not_ready), (dead, restarted)):
        assert [problem.check for problem in judgement(activity, NOW)] == expected, judgement.__name__


def test_probes_answer_by_the_judgement() -> None:
    activity = Activity([KindHealth("Cluster", False, time.monotonic() + 300)], progress=time.monotonic())
    probes = Probes(lambda: activity, host="127.0.0.1")
    probes.start()
    http = urllib3.PoolManager(retries=False)

    def get(path: str) -> tuple[int, str]:
        answer = http.request("GET", f"http://127.0.0.1:{probes.port}{path}")
        return answer.status, answer.data.decode()

    try:
        assert get("/healthz") == (200, "ok\n")
        assert get("/readyz") == (503, "Cluster is not listed yet\n")
        assert get("/metrics")[1].startswith("# HELP")
        assert get("/other")[0] == 404
    finally:
        http.clear()
        probes.stop()
