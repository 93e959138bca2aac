"""Throttle: a minimum interval between runs, and one run at a time."""

from __future__ import annotations

import threading

import pytest

from shared.clients import Clients
from shared.kube import Unavailable
from shared.runtime import Answer, done
from shared.runtime.throttle import Throttle
from tests.support.until import HANGS


def test_work_is_not_repeated_within_its_interval() -> None:
    throttle, clients, did = Throttle("the work"), Clients(), []

    def work() -> Answer:
        did.append(1)
        return done("worked")

    messages = [throttle.run(clients, "a", 60, work).message for _ in range(50)]
    assert messages[0] == "worked"
    assert len(set(messages)) > 1
    assert len(did) == 1
    assert throttle.run(clients, "a", 60, work).message.startswith("the work was done")
    throttle.run(clients, "b", 60, work)  # another key
    throttle.run(clients, "a", 0, work)  # no interval
    assert len(did) == 3


def test_failed_work_may_be_repeated_at_once() -> None:
    throttle, clients = Throttle("the work"), Clients()
    assert throttle.run(clients, "a", 60, lambda: Answer(503)).status == 503
    assert throttle.run(clients, "a", 60, lambda: done("worked")).message == "worked"


def test_run_during_other_work_is_unavailable() -> None:
    throttle, clients = Throttle("the work"), Clients()
    throttle._lock._timeout = 0.1
    entered, leave = threading.Event(), threading.Event()

    def work() -> Answer:
        entered.set()
        leave.wait(HANGS)
        return done()

    thread = threading.Thread(target=lambda: throttle.run(clients, "a", 0, work))
    thread.start()
    try:
        assert entered.wait(HANGS)
        with pytest.raises(Unavailable, match="the work"):
            throttle.run(clients, "b", 0, work)
    finally:
        leave.set()
        thread.join()
