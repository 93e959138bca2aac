"""KeyedLock: one holder per key, a limit of keys, and a timeout."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, Thread

import pytest

from functions.addon_apply import function as addon_apply
from functions.addon_apply.triggers import TRIGGERS
from shared.api.resources import CLUSTER_ADDON
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Unavailable
from shared.runtime.keyed_lock import KeyedLock
from tests.support.until import HANGS


def _hold(lock: KeyedLock, key: object, entered: Event, leave: Event, tenant: str = "") -> Thread:
    def work() -> None:
        with lock.hold(key, tenant):
            entered.set()
            leave.wait(HANGS)

    thread = Thread(target=work)
    thread.start()
    assert entered.wait(HANGS)
    return thread


def test_second_holder_of_a_key_times_out() -> None:
    lock, leave = KeyedLock("the work", timeout=0.1), Event()
    thread = _hold(lock, "a", Event(), leave)
    try:
        with pytest.raises(Unavailable, match="the work is under way") as caught, lock.hold("a"):
            pass
        assert caught.value.retry_after == 0.1
        with lock.hold("b"):  # another key is free
            pass
    finally:
        leave.set()
        thread.join()
    with lock.hold("a"):
        pass
    assert lock._locks == {}


def test_holder_beyond_the_limit_of_keys_times_out() -> None:
    lock, leave = KeyedLock("the work", limit=2, timeout=0.1), Event()
    threads = [_hold(lock, key, Event(), leave) for key in "ab"]
    try:
        with pytest.raises(Unavailable), lock.hold("c"):
            pass
    finally:
        leave.set()
        for thread in threads:
            thread.join()
    with lock.hold("c"):
        pass


def test_one_tenant_leaves_room_for_others() -> None:
    lock, leave = KeyedLock("the work", limit=4, each=2, timeout=0.1), Event()
    threads = [_hold(lock, key, Event(), leave, "hostile") for key in "ab"]
    try:
        with pytest.raises(Unavailable), lock.hold("c", "hostile"):
            pass
        for tenant in ("other", ""):
            with lock.hold("c", tenant):
                pass
    finally:
        leave.set()
        for thread in threads:
            thread.join()
    assert (lock._locks, lock._shares) == ({}, {})


def test_work_for_no_tenant_has_all_the_room() -> None:
    lock = KeyedLock("the work", limit=3, each=1, timeout=0.1)
    with lock.hold("a"), lock.hold("b"), lock.hold("c"):
        pass


def test_key_has_one_holder_at_a_time() -> None:
    lock, inside, most = KeyedLock("the work", timeout=HANGS), [0], [0]

    def work(_: int) -> None:
        with lock.hold("a"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert most == [1]


def test_function_answers_503_during_a_long_delivery_for_the_same_object() -> None:
    function = replace(addon_apply.FUNCTION, lock=(lock := KeyedLock("this addon", timeout=0.1)))
    addon = {
        "apiVersion": CLUSTER_ADDON.api_version,
        "kind": "ClusterAddon",
        "metadata": {"namespace": "n", "name": "cluster-addon-c"},
    }
    clients, event, leave = Clients(), change_event(addon, "update", source="/test"), Event()
    key = (id(clients), TRIGGERS.key(event))
    thread = _hold(lock, key, Event(), leave)
    try:
        answer = function.handle(clients, event)  # it must not run, because there is no management cluster
    finally:
        leave.set()
        thread.join()
    assert (answer.status, answer.retry_after) == (503, 0.1)
