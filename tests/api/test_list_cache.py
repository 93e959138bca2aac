"""`shared.kube.list_cache` on a real API server: how old an answer may be."""

from __future__ import annotations

import pytest

from shared.api.resources import CONFIG_MAP
from shared.kube import ApiError, Client, Object, Resource
from shared.kube.list_cache import ListCache


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


def test_what_was_there_before_the_asker_is_always_seen(management: Client, namespace: str, recent: ListCache) -> None:
    asker = make(management, namespace, "asker")
    names(recent, management, namespace, version(asker))
    make(management, namespace, "new")
    later = make(management, namespace, "later")
    before = management.requests
    assert names(recent, management, namespace, version(asker)) == {"asker"}
    assert management.requests == before
    assert names(recent, management, namespace, version(later)) == {"asker", "new", "later"}


@pytest.mark.parametrize("since", ["", "not a number", "9" * 40])
def test_who_does_not_say_since_when_gets_it_as_it_is_now(
    management: Client, namespace: str, recent: ListCache, since: str
) -> None:
    names(recent, management, namespace)
    make(management, namespace, "new")
    assert names(recent, management, namespace, since) == {"new"}


def test_for_a_moment_only(management: Client, namespace: str, recent: ListCache, clock: Clock) -> None:
    names(recent, management, namespace)
    make(management, namespace, "new")
    clock.now += 2.9
    assert names(recent, management, namespace, "1") == set()
    clock.now += 0.2
    assert names(recent, management, namespace, "1") == {"new"}


def test_namespaces_are_kept_apart(management: Client, namespace: str, recent: ListCache) -> None:
    make(management, namespace, "one")
    assert names(recent, management, namespace, "1") == {"one"}
    assert "one" not in names(recent, management, "default", "1")


def test_a_failure_is_not_kept(management: Client, namespace: str, recent: ListCache) -> None:
    unknown = Resource("example.dev", "v1", "Unknown", "unknowns")
    for _ in range(2):
        before = management.requests
        with pytest.raises(ApiError):
            recent.list(management, unknown, namespace, since="1")
        assert management.requests > before
