"""Releases in object storage: complete or invisible, written once, checked on every read.

    blobs/sha256/<digest>   content, shared by the releases that have it in common
    releases/<tag>.json     the manifest, written last: without it there is no release
    failures/<tag>.json     why the last fetch of a release failed

So a fetch that dies leaves nothing but unreferenced blobs, two fetches of one tag agree on the manifest that
came first, and whatever is damaged or gone reads as "not there" and heals by fetching again.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from shared.releases import manifest
from shared.releases.cache import BlobCache
from shared.releases.intake import MIB, Limits, Received, receive
from shared.releases.naming import ReleaseName
from shared.releases.release import METADATA, Blob, InvalidRelease, Release, assemble
from shared.releases.sources import Source
from shared.storage import ObjectStore

CACHE_BYTES = 32 * MIB


class Corrupted(Exception):
    """A stored file was damaged or gone. The release is withdrawn already: treat it as absent, fetch it again."""

    def __init__(self, tag: str, file: str) -> None:
        super().__init__(f"release {tag}: stored file {file!r} was damaged or gone; it has to be fetched again")
        self.tag, self.file = tag, file


class ReleaseStore:
    """Stored releases by tag (either spelling). Threads may share it; keep one per process, for its cache.

    All methods raise `InvalidName` for a tag outside the grammar, and `StorageUnavailable` or `StorageError`.
    """

    def __init__(self, objects: ObjectStore, limits: Limits | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._objects = objects
        self._limits = limits or Limits()
        self._cache = BlobCache(cache_bytes)

    def save(self, tag: str, source: Source) -> Release:
        """Fetch a release and publish it. If it is there already, complete, that one stays and is returned.

        Raises `ReleaseNotFound`, `SourceError`, or `InvalidRelease` when the fetched files make no release; then,
        and whatever else the source raises, nothing becomes visible.
        """
        name = ReleaseName.parse(tag)
        self._objects.ensure_bucket()
        files: dict[str, Blob] = {}
        metadata: bytes | None = None
        for received in receive(source.fetch(name.tag), self._limits):
            self._keep(received)
            files[received.name] = Blob(received.digest, len(received.data))
            if received.name == METADATA:
                metadata = received.data
        release = assemble(name, files, metadata)
        return self._publish(release)

    def load(self, tag: str) -> Release | None:
        """The stored release; None when it is not there as a whole, which one `save` repairs."""
        name = ReleaseName.parse(tag)
        data = self._objects.get(_manifest_key(name))
        files = manifest.decode(data, name.tag) if data is not None else None
        if files is None or METADATA not in files:
            return None
        if not all(self._has(blob) for file, blob in files.items() if file != METADATA):
            return None
        try:
            return assemble(name, files, self._content(name, METADATA, files[METADATA]))
        except (Corrupted, InvalidRelease):
            return None

    def read(self, release: Release, file: str) -> bytes:
        """The content of one file. Raises `Corrupted`, or `InvalidRelease` if the release has no such file."""
        if file not in release.files:
            raise InvalidRelease(release.name.tag, {file: "missing"})
        return self._content(release.name, file, release.files[file])

    def note_failure(self, tag: str, message: str) -> None:
        """Remember why the last fetch failed, for those who wait for the release; an empty message forgets it."""
        key = _failure_key(ReleaseName.parse(tag))
        if message:
            self._objects.ensure_bucket()
            note = {"message": message, "at": datetime.now(UTC).isoformat()}
            self._objects.put(key, json.dumps(note).encode(), if_absent=False)
        elif self._objects.exists(key):
            self._objects.delete(key)

    def failure(self, tag: str) -> tuple[str, datetime] | None:
        """Why and when the last fetch failed; None if it did not, or none was tried."""
        data = self._objects.get(_failure_key(ReleaseName.parse(tag)))
        if data is None:
            return None
        try:
            note = json.loads(data)
            return str(note["message"]), datetime.fromisoformat(note["at"])
        except (ValueError, KeyError, TypeError):
            return None

    def delete(self, tag: str) -> None:
        """Forget a release. Its blobs stay: another release may share them."""
        self._objects.delete(_manifest_key(ReleaseName.parse(tag)))

    def _keep(self, received: Received) -> None:
        key = _blob_key(received.digest)
        if not self._objects.exists(key):
            self._objects.put(key, received.data, if_absent=False)

    def _publish(self, release: Release) -> Release:
        key, data = _manifest_key(release.name), manifest.encode(release.name.tag, release.files)
        if not self._objects.put(key, data, if_absent=True):
            if first := self.load(release.name.tag):
                return first
            self._objects.put(key, data, if_absent=False)
        return release

    def _has(self, blob: Blob) -> bool:
        return self._cache.get(blob.digest) is not None or self._objects.exists(_blob_key(blob.digest))

    def _content(self, name: ReleaseName, file: str, blob: Blob) -> bytes:
        if (cached := self._cache.get(blob.digest)) is not None:
            return cached
        data = self._objects.get(_blob_key(blob.digest))
        if data is None or hashlib.sha256(data).hexdigest() != blob.digest:
            # The blob first: `load` notices a missing blob, but `save` would keep a bad one.
            self._objects.delete(_blob_key(blob.digest))
            self._objects.delete(_manifest_key(name))
            raise Corrupted(name.tag, file)
        self._cache.add(blob.digest, data)
        return data


def _manifest_key(name: ReleaseName) -> str:
    return f"releases/{name.tag}.json"


def _failure_key(name: ReleaseName) -> str:
    return f"failures/{name.tag}.json"


def _blob_key(digest: str) -> str:
    return f"blobs/sha256/{digest}"
