"""One piece of work at a time for each key; whoever waits for long gives up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from functions.addon_apply import function as addon_apply
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Unavailable
from shared.runtime.keyed_lock import KeyedLock


def _within(lock: KeyedLock, key: str, entered: Event, leave: Event) -> Thread:
    def work() -> None:
        with lock.hold(key):
            entered.set()
            leave.wait(30)

    thread = Thread(target=work)
    thread.start()
    assert entered.wait(30)
    return thread


def test_the_second_of_a_key_waits_and_then_gives_up() -> None:
    lock, leave = KeyedLock("the work", timeout=0.1), Event()
    thread = _within(lock, "a", Event(), leave)
    try:
        with pytest.raises(Unavailable, match="the work is under way") as caught, lock.hold("a"):
            pass
        assert caught.value.retry_after == 0.1
        with lock.hold("b"):  # nobody's business but its own
            pass
    finally:
        leave.set()
        thread.join()
    with lock.hold("a"):
        pass
    assert lock._locks == {}


def test_only_so_many_keys_at_a_time() -> None:
    lock, leave = KeyedLock("the work", limit=2, timeout=0.1), Event()
    threads = [_within(lock, key, Event(), leave) for key in "ab"]
    try:
        with pytest.raises(Unavailable), lock.hold("c"):
            pass
    finally:
        leave.set()
        for thread in threads:
            thread.join()
    with lock.hold("c"):
        pass


def test_nobody_is_within_a_key_together_with_another() -> None:
    lock, inside, most = KeyedLock("the work", timeout=30), [0], [0]

    def work(_: int) -> None:
        with lock.hold("a"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert most == [1]


def test_addon_apply_answers_503_where_another_delivery_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addon_apply, "_LOCK", lock := KeyedLock("this addon", timeout=0.1))
    addon = {
        "apiVersion": "clusteraddon.cluster.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"namespace": "n", "name": "cluster-addon-c"},
    }
    clients, event, leave = Clients(), change_event(addon, "update", source="/test"), Event()
    monkeypatch.setattr(
        addon_apply, "Function", None
    )  # nothing of it may run: it would have to ask the management cluster
    key = (id(clients), addon_apply.TRIGGERS.key(event))
    thread = _within(lock, key, Event(), leave)  # type: ignore[arg-type]
    try:
        answer = addon_apply.handle(clients, event)
    finally:
        leave.set()
        thread.join()
    assert (answer.status, answer.retry_after) == (503, 0.1)
