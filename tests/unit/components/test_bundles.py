"""Downloaded components in a real object store."""

from __future__ import annotations

import pytest

from shared.components.bundles import Bundle, BundleStore
from shared.storage import ObjectStore

BUNDLE = Bundle("v1.1.0", "metadata", "components", "https://example.com")


def test_bundle_is_found_by_its_digest(object_store: ObjectStore) -> None:
    store = BundleStore(object_store)
    assert store.load(BUNDLE.digest) is None
    assert store.save(BUNDLE) == BUNDLE
    assert store.load(BUNDLE.digest) == BUNDLE


@pytest.mark.parametrize(
    "content", [BUNDLE.encode()[:-10], b"", b"{}", BUNDLE.encode().replace(b"components", b"other")]
)
def test_damaged_bundle_counts_as_absent(object_store: ObjectStore, content: bytes) -> None:
    store = BundleStore(object_store)
    store.save(BUNDLE)
    [key] = object_store.list("components/")
    object_store.put(key, content, if_absent=False)
    assert store.load(BUNDLE.digest) is None
    store.save(BUNDLE)
    assert store.load(BUNDLE.digest) == BUNDLE


@pytest.mark.parametrize("digest", ["", "../../x", "0" * 63, "0" * 64])
def test_other_digest_finds_nothing(object_store: ObjectStore, digest: str) -> None:
    store = BundleStore(object_store)
    store.save(BUNDLE)
    assert store.load(digest) is None
