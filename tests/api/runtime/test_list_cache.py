"""`shared.kube.list_cache` on a real API server: which lists are answered from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from shared.api.resources import CONFIG_MAP
from shared.kube import ApiError, Client, Object, Resource
from shared.kube.list_cache import ListCache
from tests.support.until import HANGS


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recent(clock: Clock) -> ListCache:
    return ListCache(3.0, clock)


def make(client: Client, namespace: str, name: str) -> Object:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}
    return client.create(CONFIG_MAP, body)


def names(recent: ListCache, client: Client, namespace: str, since: str = "") -> set[str]:
    found = recent.list(client, CONFIG_MAP, namespace, since=since)
    return {obj["metadata"]["name"] for obj in found} - {"kube-root-ca.crt"}


def version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


def test_list_contains_every_object_older_than_since(management: Client, namespace: str, recent: ListCache) -> None:
    requester = make(management, namespace, "requester")
    names(recent, management, namespace, version(requester))
    make(management, namespace, "new")
    later = make(management, namespace, "later")
    before = management.requests
    assert names(recent, management, namespace, version(requester)) == {"requester"}
    assert management.requests == before
    assert names(recent, management, namespace, version(later)) == {"requester", "new", "later"}


@pytest.mark.parametrize("since", ["", "not a number", "9" * 40])
def test_list_without_a_valid_since_is_fresh(management: Client, namespace: str, recent: ListCache, since: str) -> None:
    names(recent, management, namespace)
    make(management, namespace, "new")
    assert names(recent, management, namespace, since) == {"new"}


def test_list_is_cached_for_its_lifetime_only(
    management: Client, namespace: str, recent: ListCache, clock: Clock
) -> None:
    names(recent, management, namespace)
    make(management, namespace, "new")
    clock.now += 2.9
    assert names(recent, management, namespace, "1") == set()
    clock.now += 0.2
    assert names(recent, management, namespace, "1") == {"new"}


def test_lists_are_cached_per_namespace(management: Client, namespace: str, recent: ListCache) -> None:
    make(management, namespace, "one")
    assert names(recent, management, namespace, "1") == {"one"}
    assert "one" not in names(recent, management, "default", "1")


def test_failed_list_is_not_cached(management: Client, namespace: str, recent: ListCache) -> None:
    unknown = Resource("example.dev", "v1", "Unknown", "unknowns")
    for _ in range(2):
        before = management.requests
        with pytest.raises(ApiError):
            recent.list(management, unknown, namespace, since="1")
        assert management.requests > before


def test_threads_that_need_a_list_at_once_share_it(
    management: Client, namespace: str, recent: ListCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = version(make(management, namespace, "one"))
    pages, threads, waiting = management.pages, 4, Event()

    def slowly(*args: Any) -> Iterator[Object]:
        waiting.wait(HANGS)
        return pages(*args)

    monkeypatch.setattr(management, "pages", slowly)
    before = management.requests
    with ThreadPoolExecutor(threads) as pool:
        found = [pool.submit(names, recent, management, namespace, since) for _ in range(threads)]
        waiting.set()
        assert [one.result() for one in found] == [{"one"}] * threads
    assert management.requests == before + 1


def test_outdated_lists_are_forgotten(management: Client, namespace: str, recent: ListCache, clock: Clock) -> None:
    since = version(make(management, namespace, "requester"))
    for each in (namespace, "default", "kube-system"):
        recent.list(management, CONFIG_MAP, each, since=since)
        clock.now += 2
    assert [where for _, where in recent._cached[management]] == ["default", "kube-system"]
    assert len(recent._reading[management]) == 1
