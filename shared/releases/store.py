"""Stores releases in object storage: visible only when complete, written once, checked on every read.

    blobs/sha256/<digest>   content, shared by releases with the same file
    releases/<tag>.json     the manifest, written last: a release without a manifest does not exist
    pins/<tag>.json         the files of the first fetch: the same tag with other files is refused
    failures/<tag>.json     why the last fetch failed
    scopes/<scope>/...      releases, pins and failures of the sources of ClusterStacks

All but blobs are records (`shared.records`), which only functions can write.

An interrupted fetch leaves only blobs without references. If two fetches of one tag are concurrent, the first manifest
counts for both. A damaged or deleted file makes the release absent, and the next fetch repairs it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime, timedelta

from shared.download.checksums import SUMS
from shared.download.ingest import MIB, IngestedFile, IngestLimits, ingest
from shared.download.signatures import RELEASE_KEY, SUFFIX, verifier_in
from shared.records import Records
from shared.releases import manifest
from shared.releases.blob_cache import BlobCache
from shared.releases.naming import ReleaseName
from shared.releases.release import METADATA, Blob, InvalidRelease, Release, Retagged, assemble
from shared.releases.sources import Source
from shared.storage import ObjectStore

CACHE_BYTES = 32 * MIB
BLOBS = "blobs/sha256/"
_PROOF = 64 * 1024  # bytes of a signature, or of a list of digests
_LONGEST = 4000  # characters of a failure's message: objects' conditions quote it
_SCOPE = re.compile(r"[0-9a-z]{1,64}")


class CorruptedFile(Exception):
    """A stored file was damaged or missing. The store has deleted the release's manifest: fetch the release again."""

    def __init__(self, tag: str, file: str) -> None:
        super().__init__(f"release {tag}: stored file {file!r} was damaged or missing; it has to be fetched again")
        self.tag, self.file = tag, file


class ReleaseStore:
    """The stored releases, by tag. Threads may share a store; use one in each process, because it caches blobs.

    A tag may have the dash form or the dot form. All methods raise `InvalidName` for an invalid tag, and
    `StorageUnavailable` or `StorageError`.
    """

    def __init__(
        self, objects: ObjectStore, limits: IngestLimits | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._objects = objects
        self._records = Records(objects)
        self._limits = limits or IngestLimits()
        self._cache = BlobCache(cache_bytes)
        self._root = ""

    def in_scope(self, scope: str) -> ReleaseStore:
        """Returns the store of one scope ("" is the common one): with the same blobs, and its own manifests."""
        if scope and not _SCOPE.fullmatch(scope):
            raise ValueError(f"{scope!r} is not the name of a scope")
        other = copy(self)
        other._root = f"scopes/{scope}/" if scope else ""
        return other

    def save(self, tag: str, source: Source) -> Release:
        """Fetches a release from a source and stores it. If a complete release is stored, returns that.

        If it raises, nothing becomes visible.

        Raises:
            ReleaseNotFound: The source does not have the release.
            SourceError: The source fails, or a file is not signed by the key that the settings require.
            InvalidRelease: Required files are missing or unusable.
            Retagged: The files differ from the files of the first fetch.
        """
        name = ReleaseName.parse(tag)
        files: dict[str, Blob] = {}
        metadata: bytes | None = None
        verifier = verifier_in(RELEASE_KEY)
        to_verify: dict[str, str] = {}
        proofs: dict[str, bytes] = {}
        for received in ingest(source.fetch(name.tag), self._limits):
            self._put_blob(received)
            files[received.name] = Blob(received.digest, len(received.data))
            if received.name == METADATA:
                metadata = received.data
            if verifier and not received.signed:
                to_verify[received.name] = received.digest
                if len(received.data) <= _PROOF and received.name.endswith((SUMS, SUFFIX)):
                    proofs[received.name] = received.data
        if verifier and (unsigned := verifier.unsigned(to_verify, proofs)):
            way_out = f"sign the OCI artifact, {SUMS}, or each file; a signature of a file is <file>{SUFFIX}"
            raise verifier.refusal([f"release {name.tag}: {unsigned[0]}", *unsigned[1:]], way_out)
        release = assemble(name, files, metadata)
        pinned = self._pinned(name)
        if pinned is not None and (changed := _differing(pinned, release.applied_files)):
            if first := self.load(name.tag):  # a concurrent fetch was faster
                return first
            raise Retagged(name.tag, changed, self._pin_key(name))
        published = self._publish(release)
        if pinned is None:  # after the manifest, because a pin without one would refuse the files of a concurrent fetch
            self._pin(published)
        return published

    def load(self, tag: str, *, complete: bool = True) -> Release | None:
        """Returns the stored release; None if it is absent or incomplete, which `save` repairs.

        Without `complete` the presence of the files is not checked: `read` checks those that are needed.
        """
        name = ReleaseName.parse(tag)
        data = self._records.get(self._manifest_key(name))
        files = manifest.decode(data, name.tag) if data is not None else None
        if files is None or METADATA not in files:
            return None
        if complete and not all(self._has(blob) for file, blob in files.items() if file != METADATA):
            return None
        try:
            return assemble(name, files, self._content(name, METADATA, files[METADATA]))
        except (CorruptedFile, InvalidRelease):
            return None

    def read(self, release: Release, file: str) -> bytes:
        """Returns the content of a file. Raises `CorruptedFile`, or `InvalidRelease` if the release lacks the file."""
        if file not in release.files:
            raise InvalidRelease(release.name.tag, {file: "missing"})
        return self._content(release.name, file, release.files[file])

    def record_failure(self, tag: str, message: str, retry_after: float | None = None) -> None:
        """Records why a fetch failed, for the objects that wait for the release; an empty message deletes the record.

        `retry_after`: the seconds during which the source accepts no requests.
        """
        key = self._failure_key(ReleaseName.parse(tag))
        if message:
            now = datetime.now(UTC)
            note = {"message": message[:_LONGEST], "at": now.isoformat()}
            if retry_after is not None:
                note["until"] = (now + timedelta(seconds=retry_after)).isoformat()
            self._records.put(key, json.dumps(note).encode(), if_absent=False)
        elif self._objects.exists(key):
            self._objects.delete(key)

    def last_failure(self, tag: str) -> tuple[str, datetime] | None:
        """Returns why and when the last fetch failed; None if it succeeded, or there was none."""
        note = self._failure(tag)
        return (note[0], note[1]) if note else None

    def backoff(self, tag: str) -> tuple[str, float] | None:
        """Returns why the source accepts no requests, and for how many seconds more; None if it accepts them."""
        note = self._failure(tag)
        if note is None or note[2] is None:
            return None
        left = (note[2] - datetime.now(UTC)).total_seconds()
        return (note[0], left) if left > 0 else None

    def delete(self, tag: str) -> None:
        """Deletes a release and its pin. Its blobs stay, because other releases may share them."""
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
        """Returns message, time and end of the pause of the last failure; None without a valid record."""
        data = self._records.get(self._failure_key(ReleaseName.parse(tag)))
        if data is None:
            return None
        try:
            note = json.loads(data)
            until = datetime.fromisoformat(note["until"]) if "until" in note else None
            return str(note["message"]), datetime.fromisoformat(note["at"]), until
        except (ValueError, KeyError, TypeError):
            return None

    def _put_blob(self, received: IngestedFile) -> None:
        # An existing blob is written again, to repair it if damaged and to protect it from garbage collection.
        self._objects.put(blob_key(received.digest), received.data, if_absent=False)

    def _pinned(self, name: ReleaseName) -> dict[str, Blob] | None:
        """Returns the files of the first fetch; None without a valid pin."""
        data = self._records.get(self._pin_key(name))
        return manifest.decode(data, name.tag) if data is not None else None

    def _pin(self, release: Release) -> None:
        """Records the files of a release as the files of the first fetch."""
        data = manifest.encode(release.name.tag, release.applied_files)
        self._records.put(self._pin_key(release.name), data, if_absent=False)

    def _publish(self, release: Release) -> Release:
        """Writes the manifest. Returns the release that was published first, if there is one."""
        key, data = self._manifest_key(release.name), manifest.encode(release.name.tag, release.files)
        if not self._records.put(key, data, if_absent=True):
            if first := self.load(release.name.tag):
                return first
            self._records.put(key, data, if_absent=False)
        return release

    def _has(self, blob: Blob) -> bool:
        return self._cache.get(blob.digest) is not None or self._objects.exists(blob_key(blob.digest))

    def _content(self, name: ReleaseName, file: str, blob: Blob) -> bytes:
        """Returns a blob. If it is damaged or missing, deletes the manifest and raises `CorruptedFile`."""
        if (cached := self._cache.get(blob.digest)) is not None:
            return cached
        data = self._objects.get(blob_key(blob.digest), min(blob.size, self._limits.file))
        if data is None or hashlib.sha256(data).hexdigest() != blob.digest:
            self._objects.delete(blob_key(blob.digest))
            self._objects.delete(self._manifest_key(name))
            raise CorruptedFile(name.tag, file)
        self._cache.add(blob.digest, data)
        return data


def _differing(pinned: Mapping[str, Blob], files: Mapping[str, Blob]) -> set[str]:
    """Returns the names of the files that differ."""
    return {name for name in {*pinned, *files} if pinned.get(name) != files.get(name)}


def blob_key(digest: str) -> str:
    """Returns the key of a blob in object storage."""
    return f"{BLOBS}{digest}"
