"""Deletes bundles that no provider installs from object storage.

A bundle is fetched again like any other missing bundle if a provider needs it later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime

from shared.kube import Object, dig
from shared.storage import ObjectStore

from .bundles import CONTENT

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
