"""Whoever writes to the bucket exchanges what functions have stored: functions apply none of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from shared.components.bundles import Bundle, BundleStore
from shared.download import File
from shared.records import Records
from shared.releases.store import CorruptedFile, ReleaseStore
from shared.storage import ObjectStore, StorageError

TAG, OTHER = "docker-ferrol-1-27-v1", "docker-ferrol-1-27-v2"
GOOD = Bundle("v1.1.0", "metadata", "components", "https://example.com")
EVIL = Bundle("v1.1.0", "metadata", "a ClusterRoleBinding to cluster-admin", "https://example.com")


class Files:
    """A source with one release, whose addon chart has this content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def fetch(self, tag: str) -> Iterator[File]:
        version = tag.rpartition("-")[2]
        metadata = (
            "apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1\n"
            f"versions: {{clusterStack: {version}, kubernetes: v1.27.3, components: {{clusterAddon: v1}}}}\n"
        ).encode()
        for name, data in {
            "metadata.yaml": metadata,
            f"docker-ferrol-1-27-cluster-class-{version}.tgz": self._content,
            "docker-ferrol-1-27-cluster-addon-v1.tgz": self._content,
        }.items():
            yield File(name, [data], len(data))

    def list(self) -> Sequence[str]:
        return [TAG]


def _attacker(objects: ObjectStore) -> ReleaseStore:
    """Returns the store of an attacker who may write to the bucket, and knows all but the key."""
    releases = ReleaseStore(objects)
    releases._records = Records(objects, {"CAPI_FUNCTIONS_STORE_KEY": "b" * 32})
    return releases


@pytest.fixture
def filled(object_store: ObjectStore) -> ObjectStore:
    """A bucket with two releases and two bundles."""
    releases, bundles = ReleaseStore(object_store), BundleStore(object_store)
    for tag in (TAG, OTHER):
        releases.save(tag, Files(b"good"))
    bundles.save(GOOD)
    bundles.save(EVIL)
    return object_store


def _loaded(objects: ObjectStore) -> bytes | None:
    store = ReleaseStore(objects)
    release = store.load(TAG)
    try:
        return store.read(release, release.addon_chart) if release else None
    except CorruptedFile:
        return None


def test_what_functions_stored_is_found(filled: ObjectStore) -> None:
    assert _loaded(filled) == b"good"
    assert BundleStore(filled).load(GOOD.digest) == GOOD


def test_every_stored_object_may_be_exchanged(filled: ObjectStore) -> None:
    """Each object gets the content of each other object: nothing of it is applied in place of what was fetched."""
    keys = filled.list()
    content = {key: filled.get(key) or b"" for key in keys}
    assert len(keys) == len({*keys}) == 9
    for target in keys:
        for other in keys:
            filled.put(target, content[other], if_absent=False)
            assert _loaded(filled) in (None, b"good"), (target, other)
            assert BundleStore(filled).load(GOOD.digest) in (None, GOOD), (target, other)
            for key, data in content.items():  # what a function deletes as damaged, too
                filled.put(key, data, if_absent=False)


def _publish_release(objects: ObjectStore) -> None:
    releases = _attacker(objects)
    releases.delete(TAG)
    releases.save(TAG, Files(b"evil"))


def _copy_record(source: str, target: str) -> Callable[[ObjectStore], None]:
    def copy(objects: ObjectStore) -> None:
        objects.put(target, objects.get(source) or b"", if_absent=False)

    return copy


def _strip_code(objects: ObjectStore) -> None:
    _publish_release(objects)
    key = f"releases/{TAG}.json"
    objects.put(key, (objects.get(key) or b"")[:-64], if_absent=False)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(_publish_release, id="a release of one's own"),
        pytest.param(_strip_code, id="a release without a code"),
        pytest.param(_copy_record(f"releases/{OTHER}.json", f"releases/{TAG}.json"), id="the manifest of another tag"),
    ],
)
def test_forged_record_counts_as_absent(filled: ObjectStore, attack: Callable[[ObjectStore], None]) -> None:
    attack(filled)
    assert _loaded(filled) is None


def test_functions_fetch_again_what_was_forged(filled: ObjectStore) -> None:
    _publish_release(filled)
    ReleaseStore(filled).save(TAG, Files(b"good"))
    assert _loaded(filled) == b"good"


def test_forged_failure_is_not_quoted(filled: ObjectStore) -> None:
    note = {"message": "run this command: ...", "at": "2026-01-01T00:00:00+00:00"}
    filled.put(f"failures/{TAG}.json", json.dumps(note).encode(), if_absent=False)
    assert ReleaseStore(filled).last_failure(TAG) is None


@pytest.mark.parametrize(("key", "fault"), [("", "is not set"), ("short", "has fewer than 32 characters")])
def test_bucket_without_a_key_is_not_used(object_store: ObjectStore, key: str, fault: str) -> None:
    records = Records(object_store, {"CAPI_FUNCTIONS_STORE_KEY": key})
    for act in (lambda: records.get("k"), lambda: records.put("k", b"", if_absent=True)):
        with pytest.raises(StorageError, match=f"CAPI_FUNCTIONS_STORE_KEY {fault}, .* set it to a random text"):
            act()
    assert object_store.list() == ()
