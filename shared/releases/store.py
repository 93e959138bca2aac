"""Releases in object storage: complete or invisible, written once, checked on every read.

    blobs/sha256/<digest>   content, shared by the releases that have it in common
    releases/<tag>.json     the manifest, written last: without it there is no release
    pins/<tag>.json         its files when it was fetched first: the same tag with others is refused
    failures/<tag>.json     why the last fetch of a release failed
    scopes/<scope>/...      releases, pins and failures again, for sources that are not everybody's

So a fetch that dies leaves nothing but unreferenced blobs, two fetches of one tag agree on the manifest that
came first, and whatever is damaged or gone reads as "not there" and heals by fetching again.
"""

from __future__ import annotations

import hashlib
import json
import re
from copy import copy
from datetime import UTC, datetime, timedelta

from shared.download.ingest import MIB, IngestedFile, Limits, ingest
from shared.releases import manifest
from shared.releases.cache import BlobCache
from shared.releases.naming import ReleaseName
from shared.releases.release import METADATA, Blob, InvalidRelease, Release, Retagged, assemble
from shared.releases.sources import Source
from shared.storage import ObjectStore

CACHE_BYTES = 32 * MIB
BLOBS = "blobs/sha256/"
_LONGEST = 4000  # characters of a failure's message: objects' conditions quote it
_SCOPE = re.compile(r"[0-9a-z]{1,64}")


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
        self._root = ""

    def within(self, scope: str) -> ReleaseStore:
        """The releases of one scope ("" is the common one): the same blobs, but other manifests and failures."""
        if scope and not _SCOPE.fullmatch(scope):
            raise ValueError(f"no scope: {scope!r}")
        other = copy(self)
        other._root = f"scopes/{scope}/" if scope else ""
        return other

    def save(self, tag: str, source: Source) -> Release:
        """Fetch a release and publish it. If it is there already, complete, that one stays and is returned.

        Raises `ReleaseNotFound`, `SourceError`, or `InvalidRelease` when the fetched files make no release, or another
        one than before (`Retagged`); then, and whatever else the source raises, nothing becomes visible.
        """
        name = ReleaseName.parse(tag)
        self._objects.ensure_bucket()
        files: dict[str, Blob] = {}
        metadata: bytes | None = None
        for received in ingest(source.fetch(name.tag), self._limits):
            self._keep(received)
            files[received.name] = Blob(received.digest, len(received.data))
            if received.name == METADATA:
                metadata = received.data
        release = assemble(name, files, metadata)
        changed = self._pin(release)
        if not changed:
            return self._publish(release)
        if first := self.load(name.tag):  # another fetch was faster
            return first
        raise Retagged(name.tag, changed, self._pin_key(name))

    def load(self, tag: str, *, whole: bool = True) -> Release | None:
        """The stored release; None when it is not there as a whole, which one `save` repairs.

        Without `whole` it is not asked for each file whether it is there: for those who `read` what they need.
        """
        name = ReleaseName.parse(tag)
        data = self._objects.get(self._manifest_key(name))
        files = manifest.decode(data, name.tag) if data is not None else None
        if files is None or METADATA not in files:
            return None
        if whole and not all(self._has(blob) for file, blob in files.items() if file != METADATA):
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

    def note_failure(self, tag: str, message: str, retry_after: float | None = None) -> None:
        """Remember why the last fetch failed, for those who wait for the release; an empty message forgets it.

        `retry_after`: the seconds for which the source wants not to be asked.
        """
        key = self._failure_key(ReleaseName.parse(tag))
        if message:
            self._objects.ensure_bucket()
            now = datetime.now(UTC)
            note = {"message": message[:_LONGEST], "at": now.isoformat()}
            if retry_after is not None:
                note["until"] = (now + timedelta(seconds=retry_after)).isoformat()
            self._objects.put(key, json.dumps(note).encode(), if_absent=False)
        elif self._objects.exists(key):
            self._objects.delete(key)

    def failure(self, tag: str) -> tuple[str, datetime] | None:
        """Why and when the last fetch failed; None if it did not, or none was tried."""
        note = self._failure(tag)
        return (note[0], note[1]) if note else None

    def held(self, tag: str) -> tuple[str, float] | None:
        """Why the source is not to be asked yet, and for how many seconds; None where it may be."""
        note = self._failure(tag)
        if note is None or note[2] is None:
            return None
        left = (note[2] - datetime.now(UTC)).total_seconds()
        return (note[0], left) if left > 0 else None

    def delete(self, tag: str) -> None:
        """Forget a release, and what it was fetched as. Its blobs stay: another release may share them."""
        name = ReleaseName.parse(tag)
        self._objects.delete(self._manifest_key(name))
        self._objects.delete(self._pin_key(name))

    def _manifest_key(self, name: ReleaseName) -> str:
        return f"{self._root}releases/{name.tag}.json"

    def _pin_key(self, name: ReleaseName) -> str:
        return f"{self._root}pins/{name.tag}.json"

    def _failure_key(self, name: ReleaseName) -> str:
        return f"{self._root}failures/{name.tag}.json"

    def _failure(self, tag: str) -> tuple[str, datetime, datetime | None] | None:
        data = self._objects.get(self._failure_key(ReleaseName.parse(tag)))
        if data is None:
            return None
        try:
            note = json.loads(data)
            until = datetime.fromisoformat(note["until"]) if "until" in note else None
            return str(note["message"]), datetime.fromisoformat(note["at"]), until
        except (ValueError, KeyError, TypeError):
            return None

    def _keep(self, received: IngestedFile) -> None:
        # Also where it is there already: that mends a damaged one, and makes an old one too young to be collected.
        self._objects.put(blob_key(received.digest), received.data, if_absent=False)

    def _pin(self, release: Release) -> set[str]:
        """Notes the files of a release that is fetched first. Returns those that are others now than they were then."""
        key, files = self._pin_key(release.name), dict(release.used)
        data = manifest.encode(release.name.tag, files)
        if self._objects.put(key, data, if_absent=True):
            return set()
        pinned = manifest.decode(self._objects.get(key) or b"", release.name.tag)
        if pinned is None:  # damaged, or gone meanwhile
            self._objects.put(key, data, if_absent=False)
            return set()
        return {file for file in {*pinned, *files} if pinned.get(file) != files.get(file)}

    def _publish(self, release: Release) -> Release:
        key, data = self._manifest_key(release.name), manifest.encode(release.name.tag, release.files)
        if not self._objects.put(key, data, if_absent=True):
            if first := self.load(release.name.tag):
                return first
            self._objects.put(key, data, if_absent=False)
        return release

    def _has(self, blob: Blob) -> bool:
        return self._cache.get(blob.digest) is not None or self._objects.exists(blob_key(blob.digest))

    def _content(self, name: ReleaseName, file: str, blob: Blob) -> bytes:
        if (cached := self._cache.get(blob.digest)) is not None:
            return cached
        data = self._objects.get(blob_key(blob.digest))
        if data is None or hashlib.sha256(data).hexdigest() != blob.digest:
            self._objects.delete(blob_key(blob.digest))
            self._objects.delete(self._manifest_key(name))
            raise Corrupted(name.tag, file)
        self._cache.add(blob.digest, data)
        return data


def blob_key(digest: str) -> str:
    return f"{BLOBS}{digest}"
