"""The store of releases, on a real object store."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from shared.download import File, ReleaseNotFound, SourceError
from shared.download.ingest import IngestLimits
from shared.releases import manifest
from shared.releases.blob_cache import BlobCache
from shared.releases.naming import InvalidName
from shared.releases.release import Blob, InvalidRelease, Release, Retagged
from shared.releases.sources.folder import FolderSource
from shared.releases.store import CorruptedFile, ReleaseStore
from shared.settings import SETTINGS
from shared.storage import ObjectStore, StorageError, StorageUnavailable
from tests.support.moto_server import start, wait_ready
from tests.support.until import HANGS

pytest_plugins = ["tests.support.object_store"]

TAG = "docker-ferrol-1-27-v0-sha-hipstsw"
CLASS = "docker-ferrol-1-27-cluster-class-v0-sha.hipstsw.tgz"
ADDON = "docker-ferrol-1-27-cluster-addon-v2.tgz"
METADATA = b"""\
apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions: {clusterStack: v0-sha.hipstsw, kubernetes: v1.27.3, components: {clusterAddon: v2}}
"""
FILES = {"metadata.yaml": METADATA, CLASS: b"class chart", ADDON: b"addon chart", "hashes.json": b"{}"}
MANIFEST = f"releases/{TAG}.json"


@dataclass
class Files:
    """A source of given files that can fail or wait before one of them."""

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    error: Exception | None = None
    error_at: int = 0
    gate: threading.Barrier | None = None

    def fetch(self, tag: str) -> Iterator[File]:
        assert tag == TAG
        if self.gate:
            self.gate.wait(HANGS)
        for number, (name, data) in enumerate(self.files.items()):
            yield File(name, self._chunks(data, fail=number == self.error_at), len(data))

    def _chunks(self, data: bytes, *, fail: bool) -> Iterator[bytes]:
        yield data[:3]
        if fail and self.error:
            raise self.error
        yield data[3:]

    def list(self) -> Sequence[str]:
        return [TAG]


@pytest.fixture
def store(object_store: ObjectStore) -> ReleaseStore:
    return ReleaseStore(object_store)


def _blob(file: str) -> str:
    return f"blobs/sha256/{hashlib.sha256(FILES[file]).hexdigest()}"


def _is_whole(store: ReleaseStore) -> bool:
    release = store.load(TAG)
    return release is not None and {name: store.read(release, name) for name in release.files} == FILES


def test_saved_release_loads_and_reads(store: ReleaseStore, object_store: ObjectStore) -> None:
    assert store.load(TAG) is None
    saved = store.save(TAG, Files())
    for reader in (store, ReleaseStore(object_store)):
        assert reader.load(TAG) == reader.load("docker-ferrol-1-27-v0-sha.hipstsw") == saved
        assert _is_whole(reader)
    assert saved.addon_chart == ADDON
    assert store.read(saved, saved.addon_chart) == b"addon chart"
    assert saved.files[ADDON] == Blob(hashlib.sha256(b"addon chart").hexdigest(), 11)


def test_release_is_saved_from_a_folder(store: ReleaseStore, tmp_path: Path) -> None:
    folder = tmp_path / "cluster-stacks" / TAG
    folder.mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    store.save(TAG, FolderSource(tmp_path))
    assert _is_whole(store)
    with pytest.raises(ReleaseNotFound):
        store.save("docker-ferrol-1-27-v9", FolderSource(tmp_path))


def test_bucket_is_created_on_the_first_save(object_store: ObjectStore) -> None:
    store = ReleaseStore(ObjectStore("s3://made-when-needed"))
    assert store.load(TAG) is None
    store.save(TAG, Files())
    assert _is_whole(store)


@pytest.mark.parametrize("tag", ["../x", "foreign", ""])
def test_invalid_tag_is_refused(store: ReleaseStore, tag: str) -> None:
    for act in (store.load, store.delete, lambda tag: store.save(tag, Files())):
        with pytest.raises(InvalidName):
            act(tag)


def test_equal_content_is_stored_once(store: ReleaseStore, object_store: ObjectStore) -> None:
    store.save(TAG, Files(FILES | {"copy": FILES[ADDON]}))
    assert len(object_store.list("blobs/")) == len(FILES)


@pytest.mark.parametrize("error_at", range(len(FILES)))
@pytest.mark.parametrize("error", [SourceError("connection lost", transient=True), RuntimeError("bug")])
def test_interrupted_fetch_leaves_nothing_visible(
    store: ReleaseStore, object_store: ObjectStore, error: Exception, error_at: int
) -> None:
    with pytest.raises(type(error), match=str(error)):
        store.save(TAG, Files(error=error, error_at=error_at))
    assert object_store.list("releases/") == ()
    assert store.load(TAG) is None
    store.save(TAG, Files())
    assert _is_whole(store)


@pytest.mark.parametrize("missing", ["metadata.yaml", CLASS, ADDON])
def test_half_written_folder_is_not_published(store: ReleaseStore, object_store: ObjectStore, missing: str) -> None:
    with pytest.raises(InvalidRelease) as caught:
        store.save(TAG, Files({name: data for name, data in FILES.items() if name != missing}))
    assert caught.value.problems == {missing: "missing"}
    assert object_store.list("releases/") == ()


def test_unsafe_or_oversized_files_leave_nothing_visible(object_store: ObjectStore) -> None:
    store = ReleaseStore(object_store, IngestLimits(file=1000))
    for name, data in (("../x", b""), ("zeros", bytes(1001))):
        with pytest.raises(SourceError):
            store.save(TAG, Files(FILES | {name: data}))
    assert object_store.list("releases/") == ()


def test_concurrent_saves_agree_on_one_release(object_store: ObjectStore) -> None:
    for _ in range(5):
        gate = threading.Barrier(4)
        stores = [ReleaseStore(object_store) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            saved = list(pool.map(lambda store, gate=gate: store.save(TAG, Files(gate=gate)), stores))
        assert saved == [stores[0].load(TAG)] * 4
        assert _is_whole(ReleaseStore(object_store))
        stores[0].delete(TAG)


@dataclass
class Interrupted:
    """An object store that lets somebody else act before its write number `at`."""

    objects: ObjectStore
    at: int
    act: Callable[[], object]
    writes: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objects, name)

    def put(self, key: str, data: bytes, *, if_absent: bool) -> bool:
        self.writes += 1
        if self.writes - 1 == self.at:
            self.act()
        return self.objects.put(key, data, if_absent=if_absent)


@pytest.mark.parametrize("write", range(len(FILES) + 2))
def test_concurrent_saves_of_other_files_agree_on_one_release(object_store: ObjectStore, write: int) -> None:
    """One of them is between two of its writes while the other one saves all of it."""
    others: list[Release] = []
    other = Files(FILES | {ADDON: b"moved tag"})
    objects = Interrupted(object_store, write, lambda: others.append(ReleaseStore(object_store).save(TAG, other)))
    saved = ReleaseStore(cast(ObjectStore, objects)).save(TAG, Files())
    assert [saved] == others == [ReleaseStore(object_store).load(TAG)]
    _lose(object_store, "releases/")
    first, second = (other, Files()) if write <= len(FILES) else (Files(), other)
    assert ReleaseStore(object_store).save(TAG, first) == saved
    _lose(object_store, "releases/")
    with pytest.raises(Retagged):
        ReleaseStore(object_store).save(TAG, second)


def test_saving_again_keeps_the_first_complete_release(store: ReleaseStore) -> None:
    first = store.save(TAG, Files())
    assert store.save(TAG, Files(FILES | {ADDON: b"moved tag"})) == first
    assert _is_whole(store)


def test_incomplete_release_is_replaced(store: ReleaseStore, object_store: ObjectStore) -> None:
    store.save(TAG, Files())
    object_store.delete(_blob(ADDON))
    assert ReleaseStore(object_store).load(TAG) is None
    ReleaseStore(object_store).save(TAG, Files())
    assert _is_whole(store)


def _lose(objects: ObjectStore, prefix: str) -> None:
    for key in objects.list(prefix):
        objects.delete(key)


@pytest.mark.parametrize(
    ("change", "lost", "changed"),
    [
        ({ADDON: b"moved tag"}, "releases/", ADDON),
        ({ADDON: b"moved tag"}, "blobs/", ADDON),
        ({"metadata.yaml": METADATA.replace(b"27.3", b"27.4")}, "releases/", "metadata.yaml"),
        ({"cluster-addon-values.yaml": b"new"}, "releases/", "cluster-addon-values.yaml"),
        ({}, "releases/", ""),
        ({"hashes.json": b"{signed: true}", "signature": b"x"}, "releases/", ""),
        ({ADDON: b"moved tag"}, "", ""),
    ],
)
def test_tag_published_again_with_other_files_is_refused(
    object_store: ObjectStore, change: dict[str, bytes], lost: str, changed: str
) -> None:
    ReleaseStore(object_store).save(TAG, Files())
    _lose(object_store, lost)
    again = Files(FILES | change)
    if not changed:
        assert ReleaseStore(object_store).save(TAG, again).files.keys() == again.files.keys()
        return
    for _ in range(2):
        with pytest.raises(Retagged, match=rf"release {TAG} was published again .*: {changed}\. .*pins/{TAG}\.json"):
            ReleaseStore(object_store).save(TAG, again)
        assert ReleaseStore(object_store).load(TAG) is None
    ReleaseStore(object_store).save(TAG, Files())
    assert _is_whole(ReleaseStore(object_store))


def test_damaged_pin_is_replaced(object_store: ObjectStore) -> None:
    ReleaseStore(object_store).save(TAG, Files())
    _lose(object_store, "releases/")
    object_store.put(f"pins/{TAG}.json", b"bit rot", if_absent=False)
    ReleaseStore(object_store).save(TAG, Files())
    _lose(object_store, "releases/")
    with pytest.raises(Retagged):
        ReleaseStore(object_store).save(TAG, Files(FILES | {ADDON: b"moved tag"}))


@pytest.mark.parametrize("file", FILES)
def test_damaged_file_withdraws_the_release(object_store: ObjectStore, file: str) -> None:
    writer, reader = ReleaseStore(object_store), ReleaseStore(object_store)
    release = writer.save(TAG, Files())
    object_store.put(_blob(file), b"bit rot", if_absent=False)
    with pytest.raises(CorruptedFile, match=f"release {TAG}: .*{file}"):
        reader.read(release, file)
    assert object_store.list("releases/") == ()
    assert reader.load(TAG) is None
    reader.save(TAG, Files())
    assert _is_whole(ReleaseStore(object_store))


def test_corrupted_metadata_loads_as_absent(object_store: ObjectStore) -> None:
    ReleaseStore(object_store).save(TAG, Files())
    object_store.put(_blob("metadata.yaml"), METADATA.replace(b"v2", b"v3"), if_absent=False)
    assert ReleaseStore(object_store).load(TAG) is None
    assert object_store.list("releases/") == ()


@pytest.mark.parametrize("file", FILES)
def test_missing_file_withdraws_the_release(object_store: ObjectStore, file: str) -> None:
    release = ReleaseStore(object_store).save(TAG, Files())
    object_store.delete(_blob(file))
    reader = ReleaseStore(object_store)
    assert reader.load(TAG) is None
    with pytest.raises(CorruptedFile):
        reader.read(release, file)


def test_load_of_a_part_does_not_check_the_other_files(object_store: ObjectStore) -> None:
    ReleaseStore(object_store).save(TAG, Files())
    object_store.delete(_blob(CLASS))
    reader = ReleaseStore(object_store)
    found = reader.load(TAG, complete=False)
    assert found is not None
    assert reader.read(found, ADDON) == FILES[ADDON]
    with pytest.raises(CorruptedFile):
        reader.read(found, CLASS)
    assert reader.load(TAG, complete=False) is None
    ReleaseStore(object_store).save(TAG, Files())
    assert _is_whole(reader)


def test_wiped_store_is_noticed_in_spite_of_the_cache(store: ReleaseStore, object_store: ObjectStore) -> None:
    store.save(TAG, Files())
    assert _is_whole(store)
    for key in object_store.list():
        object_store.delete(key)
    assert store.load(TAG) is None
    store.save(TAG, Files())
    assert _is_whole(ReleaseStore(object_store))


def test_reading_a_file_that_the_release_lacks_is_an_error(store: ReleaseStore) -> None:
    release = store.save(TAG, Files())
    with pytest.raises(InvalidRelease, match=r"nope\.yaml: missing"):
        store.read(release, "nope.yaml")
    assert store.load(TAG) == release


def test_scopes_share_blobs_alone(store: ReleaseStore, object_store: ObjectStore) -> None:
    other = store.in_scope("abc")
    other.save(TAG, Files(FILES | {ADDON: b"another"}))
    other.record_failure(TAG, "x")
    assert (store.load(TAG), store.last_failure(TAG)) == (None, None)
    assert store.in_scope("abd").load(TAG) is None
    store.save(TAG, Files())
    assert _is_whole(store)
    mine = other.load(TAG)
    assert mine is not None
    assert other.read(mine, ADDON) == b"another"
    assert len(object_store.list("blobs/")) == len(FILES) + 1
    other.delete(TAG)
    assert other.in_scope("").load(TAG) == store.load(TAG) != other.load(TAG) is None
    for scope in ("../x", "a/b", "A", "a" * 65):
        with pytest.raises(ValueError, match="is not the name of a scope"):
            store.in_scope(scope)


def test_failure_is_recorded_with_its_backoff_and_cleared(store: ReleaseStore, object_store: ObjectStore) -> None:
    assert (store.last_failure(TAG), store.backoff(TAG)) == (None, None)
    store.record_failure(TAG, "x" * 100_000)
    failure = store.last_failure(TAG)
    assert failure is not None
    assert failure[0] == "x" * 4000
    assert store.backoff(TAG) is None
    store.record_failure(TAG, "limited", 30.0)
    held = store.backoff(TAG)
    assert held is not None
    assert held[0] == "limited"
    assert 0 < held[1] <= 30
    store.record_failure(TAG, "limited", 0.0)
    assert store.backoff(TAG) is None
    assert store.last_failure(TAG) is not None
    store.record_failure(TAG, "")
    store.record_failure(TAG, "")
    assert (store.last_failure(TAG), store.backoff(TAG)) == (None, None)
    for data in (b"", b"[]", b"{}", b'{"message": "x", "at": 7}', b'{"message": "x", "at": "now"}'):
        object_store.put(f"failures/{TAG}.json", data, if_absent=False)
        assert (store.last_failure(TAG), store.backoff(TAG)) == (None, None)


def test_deleted_release_is_absent(store: ReleaseStore) -> None:
    store.save(TAG, Files())
    store.delete(TAG)
    store.delete(TAG)
    assert store.load(TAG) is None
    store.save(TAG, Files(FILES | {ADDON: b"the same tag on purpose"}))


BLOBS = {name: Blob(hashlib.sha256(data).hexdigest(), len(data)) for name, data in FILES.items()}


def test_manifest_round_trip() -> None:
    data = manifest.encode(TAG, BLOBS)
    assert manifest.decode(data, TAG) == BLOBS
    assert manifest.encode(TAG, dict(reversed(BLOBS.items()))) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        manifest.encode(TAG, BLOBS)[:-10],
        manifest.encode(TAG, BLOBS).replace(b"hashes.json", b"hashes.jsom"),
        manifest.encode(TAG, BLOBS).replace(b'"size":2', b'"size":3'),
        manifest.encode("docker-ferrol-1-27-v1", BLOBS),
        manifest.encode(TAG, {"../x": Blob("0" * 64, 1)}),
        manifest.encode(TAG, {"x": Blob("../releases/y", 1)}),
        json.dumps(json.loads(manifest.encode(TAG, BLOBS)) | {"format": 2}).encode(),
    ],
    ids=lambda data: data[-20:].decode(errors="replace"),
)
def test_invalid_manifest_counts_as_absent(store: ReleaseStore, object_store: ObjectStore, data: bytes) -> None:
    assert manifest.decode(data, TAG) is None
    object_store.put(MANIFEST, data, if_absent=False)
    assert store.load(TAG) is None
    store.save(TAG, Files())
    assert _is_whole(store)


def test_unreachable_storage_is_a_transient_error(object_store: ObjectStore) -> None:
    server = start()
    try:
        wait_ready(server.url)
        store = ReleaseStore(ObjectStore("s3://bucket", {**SETTINGS, "S3_ENDPOINT_URL": server.url}), cache_bytes=0)
        release = store.save(TAG, Files())
    finally:
        server.stop()
    for act in (
        lambda: store.load(TAG),
        lambda: store.save(TAG, Files()),
        lambda: store.read(release, ADDON),
        lambda: store.delete(TAG),
    ):
        with pytest.raises(StorageUnavailable, match=f"at {server.url}"):
            act()


def test_storage_errors_have_one_base_class() -> None:
    assert issubclass(StorageUnavailable, StorageError)


def test_cache_evicts_the_least_recently_used_blob() -> None:
    cache = BlobCache(100)
    for name in ("a", "b", "c", "d"):
        cache.add(name, bytes(25))
    assert cache.get("a") is not None
    cache.add("e", bytes(25))
    assert [name for name in "abcde" if cache.get(name) is not None] == ["a", "c", "d", "e"]
    cache.add("large", bytes(26))
    assert cache.get("large") is None
