"""The manifest of a release: the stored record that makes the release visible, and lists its files by digest.

The record has a format version and a digest of its content. A manifest that has another format or does not match its
digest counts as missing, and the release is fetched again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from shared.download.ingest import is_plain_name
from shared.releases.release import Blob

FORMAT = 1

_SHA256 = re.compile(r"[0-9a-f]{64}")


def encode(tag: str, files: Mapping[str, Blob]) -> bytes:
    """Returns the manifest of release `tag`; equal files give equal bytes."""
    listed = {name: {"sha256": blob.digest, "size": blob.size} for name, blob in files.items()}
    manifest = {"format": FORMAT, "tag": tag, "files": listed}
    return _canonical(manifest | {"digest": _digest(manifest)})


def decode(data: bytes, tag: str) -> dict[str, Blob] | None:
    """Returns the files in the manifest of release `tag`; None if `data` is not a valid manifest. Never raises."""
    try:
        manifest = json.loads(data)
        digest = manifest.pop("digest")
        if manifest["format"] != FORMAT or manifest["tag"] != tag or digest != _digest(manifest):
            return None
        files = {name: Blob(entry["sha256"], entry["size"]) for name, entry in manifest["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return files if all(map(_is_valid, files, files.values())) else None


def _is_valid(name: str, blob: Blob) -> bool:
    """Returns whether name, digest and size of a file have valid types and forms."""
    digest_ok = isinstance(blob.digest, str) and _SHA256.fullmatch(blob.digest) is not None
    return is_plain_name(name) and digest_ok and isinstance(blob.size, int)


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(manifest)).hexdigest()


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
