"""Records in a Secret that an addon owns: JSON, compressed, in base64."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import Key, owned_by

_MAX_UNPACKED = 64 * 2**20


def pack(data: Any) -> str:
    """Returns JSON data as text for a Secret's `data`."""
    compressed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 6, mtime=0)
    return base64.b64encode(compressed).decode()


def unpack(text: str) -> Any:
    """Returns the data of `pack`; raises `ValueError` for other text."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(text, validate=True))) as stream:
            return json.loads(stream.read(_MAX_UNPACKED))
    except (OSError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error


def delete_owned_secret(clients: Clients, key: Key, addon: Mapping[str, Any]) -> None:
    """Deletes the Secret if it exists and the addon owns it."""
    secret = clients.management.find(SECRET, key)
    if secret is not None and owned_by(secret, addon):
        clients.management.delete(SECRET, key, uid=secret["metadata"]["uid"])
