"""Stores records in object storage: small objects that map names to content.

Content is found by its digest, so nobody can exchange it. But digests come from records, so anyone who may write to the
bucket could exchange a record and thereby the applied content. Each record therefore ends with a message authentication
code over its key and its content, with a key from outside the bucket (setting `CAPI_FUNCTIONS_STORE_KEY`). A record
with a wrong code counts as absent, and its content is fetched again.

Only functions write to a folder, so its records need no code.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping

from shared.settings import SETTINGS, STORAGE
from shared.storage import ObjectStore, StorageError

KEY = "CAPI_FUNCTIONS_STORE_KEY"
"""The setting with the key of the codes."""
SHORTEST = 32
"""The minimum number of characters of the key."""

LARGEST = 1 << 20
"""Bytes of a record: a manifest of 256 files with long names has a tenth of that."""

_CODE = 64  # characters: SHA-256 in hexadecimal

log = logging.getLogger(__name__)


class Records:
    """The records of an object store. All methods raise as `ObjectStore` does."""

    def __init__(self, objects: ObjectStore, settings: Mapping[str, str] = SETTINGS) -> None:
        self._objects = objects
        self._settings = settings

    def get(self, key: str) -> bytes | None:
        """Returns the content of a record; None if it is absent, or if its code is wrong."""
        secret = self._secret()
        sealed = self._objects.get(key, LARGEST)
        if sealed is None or secret is None:
            return sealed
        content, code = sealed[:-_CODE], sealed[-_CODE:]
        if hmac.compare_digest(code, _code(secret, key, content)):
            return content
        log.warning(
            "%r in bucket %r counts as absent, because it was not written with the present %s",
            key,
            self._objects.bucket,
            KEY,
        )
        return None

    def put(self, key: str, content: bytes, *, if_absent: bool) -> bool:
        """Writes a record. With `if_absent` an existing record stays unchanged, and the result is False."""
        secret = self._secret()
        code = _code(secret, key, content) if secret else b""
        return self._objects.put(key, content + code, if_absent=if_absent)

    def _secret(self) -> bytes | None:
        """Returns the key of the codes; None for a folder. Raises `StorageError` if a bucket has no key."""
        if self._objects.is_folder:
            return None
        secret = self._settings.get(KEY, "")
        if len(secret) < SHORTEST:
            fault = f"has fewer than {SHORTEST} characters" if secret else "is not set"
            raise StorageError(
                f"{KEY} {fault}, so records in bucket {self._objects.bucket!r} could be forged: "
                f"set it to a random text, such as the output of `openssl rand -hex 32` ({STORAGE.where})"
            )
        return secret.encode()


def _code(secret: bytes, key: str, content: bytes) -> bytes:
    """Returns the code of a record in hexadecimal. A key of object storage contains no NUL."""
    return hmac.digest(secret, key.encode() + b"\0" + content, "sha256").hex().encode()
