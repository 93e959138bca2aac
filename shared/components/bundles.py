"""Stores downloaded components in object storage: written once, found by source and version, checked on every read.

    components/<digest>.json              metadata.yaml and components of one version, by their SHA-256
    component-sources/<source>/<version>  the digest of the bundle of this version (a record, see `shared.records`)

If the content of a version changes, the new content is another bundle. A bundle of a private source is found only for
the namespace whose credentials open the source.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from shared.records import Records
from shared.storage import ObjectStore

_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,128}")


@dataclass(frozen=True)
class Bundle:
    """The published files of one version of a provider. `source` is the address they were downloaded from."""

    version: str
    metadata: str
    components: str
    source: str

    def encode(self) -> bytes:
        """Returns the stored form; equal bundles give equal bytes."""
        return json.dumps(self.__dict__, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """The sha256 of the stored form, in hexadecimal."""
        return hashlib.sha256(self.encode()).hexdigest()


class BundleStore:
    """The stored bundles. All methods raise `StorageError` or `StorageUnavailable`.

    `source_id` is the result of `source_identity`.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._sources = Records(objects)

    def load(self, digest: str) -> Bundle | None:
        """Returns a bundle by its digest; None if it is absent or damaged: then it has to be fetched again."""
        if not _DIGEST.fullmatch(digest):
            return None
        data = self._objects.get(_content_key(digest))
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            return None
        return _decode(data)

    def find(self, source_id: str, version: str) -> Bundle | None:
        """Returns the bundle of a version from a source; None if it is not stored."""
        if not _VERSION.fullmatch(version):
            return None
        digest = self._sources.get(_source_key(source_id, version))
        return self.load(digest.decode("ascii", "replace")) if digest else None

    def save(self, source_id: str, bundle: Bundle) -> Bundle:
        """Stores the bundle that a source has for a version, and returns it. Raises `ValueError` for a bad version."""
        if not _VERSION.fullmatch(bundle.version):
            raise ValueError(f"{bundle.version!r} is not a version")
        self._objects.ensure_bucket()
        # The content comes first: a digest must never point to a bundle that is not stored.
        self._objects.put(_content_key(bundle.digest), bundle.encode(), if_absent=False)
        self._sources.put(_source_key(source_id, bundle.version), bundle.digest.encode(), if_absent=False)
        return bundle


def source_identity(source: str, kind: str, name: str, *, private_to: str = "") -> str:
    """Returns a hash that identifies a source of one provider.

    A source that is opened with credentials is `private_to` the namespace that has them.
    """
    return hashlib.sha256(json.dumps([source, kind, name, private_to], sort_keys=True).encode()).hexdigest()


def _decode(data: bytes) -> Bundle | None:
    try:
        fields = json.loads(data)
        return Bundle(**{name: str(fields[name]) for name in Bundle.__dataclass_fields__})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _content_key(digest: str) -> str:
    return f"components/{digest}.json"


def _source_key(source_id: str, version: str) -> str:
    return f"component-sources/{source_id}/{version}"
