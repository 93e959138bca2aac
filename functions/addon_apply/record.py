"""Records as a Secret keeps them: JSON, compressed, in base64."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zlib
from typing import Any

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
