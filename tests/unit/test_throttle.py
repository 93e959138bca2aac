"""Work that anybody can ask for is done once in a while, and once at a time."""

from __future__ import annotations

import threading

from shared.clients import Clients
from shared.runtime import Answer, done
from shared.runtime.throttle import Throttle


def test_the_same_work_is_not_done_again_for_a_while() -> None:
    throttle, clients, did = Throttle("the work"), Clients(), []

    def work() -> Answer:
        did.append(1)
        return done("worked")

    answers = [throttle.run(clients, "a", 60, work).message for _ in range(50)]
    assert answers[0] == "worked"
    assert len(set(answers)) > 1
    assert len(did) == 1
    assert throttle.run(clients, "a", 60, work).message.startswith("the work was done")
    throttle.run(clients, "b", 60, work)  # other work
    throttle.run(clients, "a", 0, work)  # whoever need not rest
    assert len(did) == 3


def test_work_that_failed_may_be_done_at_once() -> None:
    throttle, clients = Throttle("the work"), Clients()
    assert throttle.run(clients, "a", 60, lambda: Answer(503)).status == 503
    assert throttle.run(clients, "a", 60, lambda: done("worked")).message == "worked"


def test_whoever_asks_meanwhile_is_sent_away() -> None:
    throttle, clients = Throttle("the work"), Clients()
    throttle._lock._timeout = 0.1
    entered, leave = threading.Event(), threading.Event()

    def work() -> Answer:
        entered.set()
        leave.wait(30)
        return done()

    thread = threading.Thread(target=lambda: throttle.run(clients, "a", 0, work))
    thread.start()
    try:
        assert entered.wait(30)
        assert throttle.run(clients, "b", 0, work).status == 503
    finally:
        leave.set()
        thread.join()
