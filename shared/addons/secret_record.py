"""Records that an addon keeps in a Secret of its own: JSON, compressed, in base64."""

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

_MOST_UNPACKED = 64 * 2**20


def pack(data: Any) -> str:
    compressed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 6, mtime=0)
    return base64.b64encode(compressed).decode()


def unpack(text: str) -> Any:
    """What `pack` was given. Raises `ValueError` for anything else."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(text, validate=True))) as stream:
            return json.loads(stream.read(_MOST_UNPACKED))
    except (OSError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error


def delete_owned_secret(clients: Clients, key: Key, addon: Mapping[str, Any]) -> None:
    """Deletes the Secret if the addon owns it; absent is fine."""
    secret = clients.management.find(SECRET, key)
    if secret is not None and owned_by(secret, addon):
        clients.management.delete(SECRET, key, uid=secret["metadata"]["uid"])
