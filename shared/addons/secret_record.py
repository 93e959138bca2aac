"""Stores records in a Secret that an addon owns, as compressed JSON in base64."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared import memory_budget
from shared.api.resources import SECRET
from shared.clients import Clients
from shared.kube import Key, key_of, owned_by

Purpose = Literal["manifests", "generated", "record"]
"""The purpose of a Secret of an addon: manifests of former releases, generated values, or the record of its Cluster."""

_MAX_UNPACKED = 16 * 2**20
"""Bytes: the manifest of a large chart has a tenth of it."""


def pack(data: Any, most: int) -> str:
    """Returns JSON data as text for a Secret's `data`; empty if it is too large for `most` bytes, or for `unpack`."""
    text = json.dumps(data, separators=(",", ":")).encode()
    compressed = gzip.compress(text, 6, mtime=0)
    readable = len(text) <= _MAX_UNPACKED and memory_budget.weigh(text) <= memory_budget.MAX_INPUT
    return base64.b64encode(compressed).decode() if readable and len(compressed) <= most else ""


def unpack(text: str) -> Any:
    """Returns the data of `pack`; raises `ValueError` for other text, or `MemoryBusy`."""
    stream = zlib.decompressobj(wbits=31)
    try:
        data = stream.decompress(base64.b64decode(text, validate=True), _MAX_UNPACKED)
        if not stream.eof:
            raise ValueError(f"it is truncated, or has more than {_MAX_UNPACKED >> 20} MiB")
        return memory_budget.loads(data)
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error


def secret_key(addon: Mapping[str, Any], purpose: Purpose) -> Key:
    """Returns namespace and name of a Secret of an addon."""
    namespace, name = key_of(addon)
    return Key(namespace, f"{name}-{purpose}")


@dataclass(frozen=True)
class DeleteSecret:
    """An effect that deletes a Secret of a deleted ClusterAddon, because a local run has no garbage collector."""

    addon: Mapping[str, Any]
    purpose: Purpose

    def execute(self, clients: Clients) -> None:
        """Deletes the Secret if it exists and the addon owns it."""
        key = secret_key(self.addon, self.purpose)
        secret = clients.management.find(SECRET, key)
        if secret is not None and owned_by(secret, self.addon):
            clients.management.delete(SECRET, key, uid=secret["metadata"]["uid"])
