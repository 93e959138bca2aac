"""Downloaded components in a real object store."""

from __future__ import annotations

from shared.components.bundles import Bundle, BundleStore, source_identity
from shared.storage import ObjectStore

BUNDLE = Bundle("v1.1.0", "metadata", "components", "https://example.com")


def test_bundle_is_found_by_source_and_version(object_store: ObjectStore) -> None:
    store = BundleStore(object_store)
    here, there = source_identity("a", "CoreProvider", "x"), source_identity("b", "CoreProvider", "x")
    assert store.find(here, "v1.1.0") is None
    assert store.save(here, BUNDLE) == BUNDLE
    assert store.find(here, "v1.1.0") == store.load(BUNDLE.digest) == BUNDLE
    assert store.find(there, "v1.1.0") is None
    assert store.find(here, "v1.2.0") is None
    assert store.find(here, "../v1") is None


def test_d6_each_source_has_its_own_bundle() -> None:
    places = [
        source_identity("a", "CoreProvider", "x"),
        source_identity("b", "CoreProvider", "x"),
        source_identity("a", "AddonProvider", "x"),
        source_identity("a", "CoreProvider", "x", private_to="ns"),
    ]
    assert len(set(places)) == 4


def test_damaged_bundle_counts_as_absent(object_store: ObjectStore) -> None:
    store, here = BundleStore(object_store), source_identity("a", "CoreProvider", "x")
    store.save(here, BUNDLE)
    [content] = object_store.list("components/")
    object_store.put(content, BUNDLE.encode()[:-10], if_absent=False)
    assert store.find(here, "v1.1.0") is None
    assert store.load(BUNDLE.digest) is None
    store.save(here, BUNDLE)
    assert store.find(here, "v1.1.0") == BUNDLE
    object_store.delete(content)
    assert store.find(here, "v1.1.0") is None
    assert store.load("../../x") is None
