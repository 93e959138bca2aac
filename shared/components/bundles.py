"""Stores downloaded components in object storage, by digest: written once, checked on every read.

    components/<digest>.json    metadata.yaml and components of one version, by their SHA-256

A provider's status records the digest. So a bundle is of use only to providers that have fetched it, and nobody can
exchange it. `collect_garbage` deletes bundles that no provider installs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.kube import Object, dig
from shared.storage import ObjectStore

CONTENT = "components/"
"""The folder of the bundles."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


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
    """The stored bundles. All methods raise `StorageError` or `StorageUnavailable`."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def load(self, digest: str) -> Bundle | None:
        """Returns a bundle by its digest; None if it is absent or damaged, and must be fetched again."""
        if not _DIGEST.fullmatch(digest):
            return None
        data = self._objects.get(_content_key(digest))
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            return None
        return _decode(data)

    def save(self, bundle: Bundle) -> Bundle:
        """Stores a bundle, and returns it."""
        self._objects.put(_content_key(bundle.digest), bundle.encode(), if_absent=False)
        return bundle


def _decode(data: bytes) -> Bundle | None:
    try:
        fields = json.loads(data)
        return Bundle(**{name: str(fields[name]) for name in Bundle.__dataclass_fields__})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _content_key(digest: str) -> str:
    return f"{CONTENT}{digest}.json"


_CONTENT_KEY = re.compile(rf"{CONTENT}([0-9a-f]{{64}})\.json")


def digests_in_use(providers: Iterable[Object]) -> set[str]:
    """Returns the digests of the bundles that the providers install."""
    found = (dig(provider, "status.target.digest") for provider in providers)
    return {digest for digest in found if isinstance(digest, str)}


def collect_garbage(objects: ObjectStore, in_use: Collection[str], before: datetime) -> int:
    """Deletes bundles whose digest is not in use, if they were last written before `before`. Returns their number.

    A key that `BundleStore` does not write is never deleted. Raises as `ObjectStore` does.
    """
    unused = [
        entry
        for entry in objects.list_objects(CONTENT, partial=True)
        if (match := _CONTENT_KEY.fullmatch(entry.key)) and match[1] not in in_use
    ]
    return sum(objects.delete_old(entry, before) for entry in unused)
