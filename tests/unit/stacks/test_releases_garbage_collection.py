"""Garbage collection of releases: references as a table, deletion on a real object store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.download import File
from shared.kube import Object
from shared.releases.garbage_collection import Collected, References, collect_garbage, references
from shared.releases.source_resolution import scope_of
from shared.releases.store import CorruptedFile, ReleaseStore
from shared.storage import ObjectStore
from tests.support.until import HANGS

V1, V2 = "docker-ferrol-1-27-v1", "docker-ferrol-1-27-v2"
CLASS = "docker-ferrol-1-27-cluster-class-v1.tgz"
SCOPE = "0123abc"


def _object(kind: str, name: str = "x", namespace: str = "ns", **spec: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


FERROL = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27"}


def _stack(**spec: Any) -> Object:
    return {"kind": "ClusterStack", "metadata": {"name": "s", "namespace": "ns"}, "spec": FERROL | spec}


@pytest.mark.parametrize(
    ("obj", "tags"),
    [
        (_object("Cluster", topology={"class": V1}), {V1}),
        (_object("Cluster", topology={"classRef": {"name": "docker-ferrol-1-27-v0-sha.abc", "namespace": "other"}}), {
            "docker-ferrol-1-27-v0-sha-abc"
        }),
        (_object("Cluster", topology={"class": "foreign"}), set()),
        (_object("Cluster"), set()),
        (_object("ClusterAddon", clusterStack="docker-ferrol-1-27-v0-sha.abc"), {"docker-ferrol-1-27-v0-sha-abc"}),
        (_object("ClusterAddon", clusterStack=7), set()),
        (_object("ClusterAddon"), set()),
        (_object("ClusterStackRelease", V1), {V1}),
        (_object("ClusterStackRelease", "whatever"), set()),
        (_stack(versions=["v1", "v0-sha.abc", "nonsense", None]), {V1, "docker-ferrol-1-27-v0-sha-abc"}),
        (_stack(), set()),
        (_stack(provider=7, versions=["v1"]), set()),
        ({"kind": "ClusterStack", "metadata": {"name": "s"}}, set()),
    ],
)  # fmt: skip
def test_objects_refer_to_releases(obj: Object, tags: set[str]) -> None:
    assert references([obj]) == References(frozenset(tags))


def test_scopes_are_those_of_existing_cluster_stacks() -> None:
    own = _stack(sources=[{"url": "https://host/x"}])
    assert references([own, _stack()]).scopes == {"", scope_of(own)}


@dataclass
class Files:
    """A source of the smallest release there can be, and of more files."""

    more: dict[str, bytes] = field(default_factory=dict)
    after_first: threading.Barrier | None = None

    def fetch(self, tag: str) -> Iterator[File]:
        version = tag.rpartition("-")[2]
        metadata = f"""\
apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions: {{clusterStack: {version}, kubernetes: v1.27.3, components: {{clusterAddon: v1}}}}
"""
        own = {f"docker-ferrol-1-27-cluster-class-{version}.tgz": version.encode()}
        shared = {"docker-ferrol-1-27-cluster-addon-v1.tgz": b"addon", "metadata.yaml": metadata.encode()}
        for number, (name, data) in enumerate((own | shared | self.more).items()):
            if number == 1 and self.after_first:
                self.after_first.wait(HANGS)  # the first is stored
                self.after_first.wait(HANGS)  # go on
            yield File(name, [data], len(data))

    def list(self) -> Sequence[str]:
        return []


def _after(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def _is_whole(objects: ObjectStore, tag: str, scope: str = "") -> bool:
    store = ReleaseStore(objects).in_scope(scope)
    release = store.load(tag)
    return release is not None and all(store.read(release, name) is not None for name in release.files)


def _blob(data: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


def test_release_without_references_is_deleted_with_its_blobs(object_store: ObjectStore) -> None:
    store = ReleaseStore(object_store)
    for tag in (V1, V2):
        store.save(tag, Files())
        store.record_failure(tag, "old")
    store.in_scope(SCOPE).save(V1, Files({"more": b"only here"}))
    object_store.put("releases/somebody-elses.txt", b"x", if_absent=False)
    object_store.put("other/x", b"x", if_absent=False)
    collected = collect_garbage(object_store, References(frozenset({V1})), _after(1))
    assert collected == Collected(releases=2, blobs=3)  # v2's class chart and metadata, and what only the scope had
    assert _is_whole(object_store, V1)
    assert store.load(V2) is None
    assert store.in_scope(SCOPE).load(V1) is None
    assert [key for key in object_store.list() if not key.startswith("blobs/")] == [
        *(f"failures/{V1}.json", "other/x", f"pins/{V1}.json", f"pins/{V2}.json"),
        *(f"releases/{V1}.json", "releases/somebody-elses.txt"),
    ]
    assert collect_garbage(object_store, References(frozenset({V1})), _after(1)) == Collected()


def test_releases_of_an_existing_scope_stay_while_referenced(object_store: ObjectStore) -> None:
    ReleaseStore(object_store).in_scope(SCOPE).save(V1, Files())
    assert collect_garbage(object_store, References(frozenset({V1}), frozenset({"", SCOPE})), _after(1)) == Collected()
    assert _is_whole(object_store, V1, SCOPE)
    assert collect_garbage(object_store, References(frozenset({V1})), _after(1)) == Collected(1, 3)
    assert object_store.list() == ()


def test_recently_written_entries_stay(object_store: ObjectStore) -> None:
    ReleaseStore(object_store).save(V1, Files())
    object_store.put(_blob(b"of a fetch under way"), b"of a fetch under way", if_absent=False)
    before = object_store.list()
    assert collect_garbage(object_store, References(), _after(-1)) == Collected()
    assert object_store.list() == before


def test_blobs_of_a_manifest_of_another_format_stay(object_store: ObjectStore) -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    object_store.put(f"blobs/sha256/{digest}", b"x", if_absent=False)
    object_store.put(f"releases/{V1}.json", f'{{"format": 99, "blobs": ["{digest}"]}}'.encode(), if_absent=False)
    assert collect_garbage(object_store, References(frozenset({V1})), _after(1)) == Collected()


def test_empty_store_has_nothing_to_collect(object_store: ObjectStore) -> None:
    assert collect_garbage(object_store, References(), _after(1)) == Collected()
    assert collect_garbage(ObjectStore("s3://no-such-bucket"), References(), _after(1)) == Collected()


def test_fetch_protects_an_old_blob_from_collection(object_store: ObjectStore) -> None:
    """What it finds stored already is as safe as what it brings."""
    object_store.put(_blob(b"addon"), b"damaged", if_absent=False)
    written = object_store.modified(_blob(b"addon"))
    assert written is not None
    threading.Event().wait(1.1)  # the store tells whole seconds
    ReleaseStore(object_store).save(V1, Files())
    again = object_store.modified(_blob(b"addon"))
    assert again is not None
    assert again > written
    collect_garbage(object_store, References(), written + timedelta(seconds=1))
    assert _is_whole(object_store, V1)


def test_collection_during_a_fetch_leaves_a_complete_release(object_store: ObjectStore) -> None:
    """Even if age protected nothing: the release is found missing, and the next fetch repairs it."""
    barrier = threading.Barrier(2)
    fetch = threading.Thread(target=lambda: ReleaseStore(object_store).save(V1, Files(after_first=barrier)))
    fetch.start()
    barrier.wait(HANGS)
    assert collect_garbage(object_store, References(), _after(1)) == Collected(0, 1)
    barrier.wait(HANGS)
    fetch.join(HANGS)
    store = ReleaseStore(object_store)
    assert store.load(V1) is None
    store.save(V1, Files())
    assert _is_whole(object_store, V1)


def test_concurrent_fetches_and_collections_leave_complete_releases(object_store: ObjectStore) -> None:
    """Readers see all of a release or nothing of it; with the collections over, a fetch makes it whole."""
    ended, wrong = threading.Event(), list[str]()

    def collecting() -> None:
        while not ended.is_set():
            collect_garbage(object_store, References(), _after(1))

    def reading() -> None:
        while not ended.is_set():
            store = ReleaseStore(object_store)
            try:
                release = store.load(V1)
                if release is not None and store.read(release, CLASS) != b"v1":
                    wrong.append("another content")
            except CorruptedFile:
                continue
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=target) for target in (collecting, reading)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            ReleaseStore(object_store).save(V1, Files())
    finally:
        ended.set()
        for thread in threads:
            thread.join(HANGS)
    assert wrong == []
    if not _is_whole(object_store, V1):
        ReleaseStore(object_store).save(V1, Files())
    assert _is_whole(object_store, V1)
