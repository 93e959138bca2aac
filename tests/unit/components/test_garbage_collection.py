"""Garbage collection of provider bundles, on a real object store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.components.bundles import Bundle, BundleStore, collect_garbage, digests_in_use
from shared.kube import Object
from shared.storage import ObjectStore

OLD, NEW = (Bundle(version, "metadata", "components", "https://example.com") for version in ("v1.1.0", "v1.2.0"))


def _after(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("provider", "digests"),
    [
        ({"status": {"target": {"digest": OLD.digest}}}, {OLD.digest}),
        ({"status": {"target": {"digest": ["x"]}}}, set()),
        ({"status": {"target": "x"}}, set()),
        ({"status": []}, set()),
        ({}, set()),
    ],
)
def test_target_of_a_provider_is_in_use(provider: Object, digests: set[str]) -> None:
    good: Object = {"status": {"target": {"digest": NEW.digest}}}
    assert digests_in_use([provider, good]) == digests | {NEW.digest}


def test_bundle_that_no_provider_installs_is_deleted(object_store: ObjectStore) -> None:
    store = BundleStore(object_store)
    for bundle in (OLD, NEW):
        store.save(bundle)
    object_store.put("components/notes.txt", b"x", if_absent=False)
    assert collect_garbage(object_store, {NEW.digest}, _after(1)) == 1
    assert store.load(NEW.digest) == NEW
    assert store.load(OLD.digest) is None
    assert object_store.list() == (f"components/{NEW.digest}.json", "components/notes.txt")
    assert collect_garbage(object_store, {NEW.digest}, _after(1)) == 0


def test_recently_written_bundle_stays(object_store: ObjectStore) -> None:
    """A provider names the bundle only after it is stored."""
    store = BundleStore(object_store)
    store.save(OLD)
    assert collect_garbage(object_store, set(), _after(-1)) == 0
    assert store.load(OLD.digest) == OLD


def test_empty_store_has_nothing_to_collect(object_store: ObjectStore) -> None:
    assert collect_garbage(object_store, set(), _after(1)) == 0
