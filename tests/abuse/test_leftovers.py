"""What tenants leave behind, or keep busy, must not grow without a limit or stand in the way of others."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from functions.release_assets import function as release_assets
from shared import storage
from shared.kube import Unavailable
from shared.releases.garbage_collection import MAX_PINS, References, collect_garbage, unreferenced
from shared.storage import ObjectStore, StoredObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_pins_of_a_source_that_publishes_without_end_are_limited() -> None:
    """Each tag that was ever fetched leaves a pin, and a listing of storage that is too long would end clean-ups."""
    more = 50
    pins = [
        StoredObject(f"scopes/0abc/pins/docker-ferrol-1-27-v{number}.json", NOW + timedelta(seconds=number))
        for number in range(MAX_PINS + more + 1)
    ]
    good = StoredObject("scopes/1def/pins/docker-ferrol-1-27-v1.json", NOW - timedelta(days=1))
    used, *unused = pins
    tag = used.key.removeprefix("scopes/0abc/pins/").removesuffix(".json")
    found = unreferenced([*pins, good], References(frozenset({tag}), frozenset({"", "0abc", "1def"})))
    assert found == set(unused[:more])


def test_more_records_than_a_listing_has_are_deleted_in_turns(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant with many ClusterStacks can store any number of releases: a clean-up must not give up for ever."""
    used, unused = "0" * 64, "1" * 64
    object_store.put("scopes/1def/releases/docker-ferrol-1-27-v1.json", used.encode(), if_absent=False)
    for number in range(7):
        key = f"scopes/0abc/releases/docker-ferrol-1-27-v{number}.json"
        object_store.put(key, unused.encode(), if_absent=False)
    for digest in (used, unused):
        object_store.put(f"blobs/sha256/{digest}", b"x", if_absent=False)
    monkeypatch.setattr(storage, "MAX_LISTED", 3)
    good = References(frozenset({"docker-ferrol-1-27-v1"}), frozenset({"", "1def"}))
    later = datetime.now(UTC) + timedelta(hours=1)
    for _ in range(8):
        collect_garbage(object_store, good, later)
        assert object_store.exists(f"blobs/sha256/{used}")
    assert object_store.list() == (f"blobs/sha256/{used}", "scopes/1def/releases/docker-ferrol-1-27-v1.json")


def test_slow_sources_of_many_namespaces_leave_room_for_the_common_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant may have many namespaces. A fetch from a slow source holds its slot for minutes."""
    lock = release_assets._LOCK
    monkeypatch.setattr(lock, "_timeout", 0.1)
    with ExitStack() as held:
        taken = 0
        for number in range(12):
            try:
                held.enter_context(lock.hold(number, f"hostile-{number // 2}"))
                taken += 1
            except Unavailable:
                continue
        assert taken > 1
        with pytest.raises(Unavailable), lock.hold("another", "another"):
            pass
        with lock.hold("common"):
            pass
