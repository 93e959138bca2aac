"""Deletes stored objects by their age, for clean-ups.

An object that was written a moment ago may belong to work in progress, which has not recorded yet that it needs the
object.
"""

from __future__ import annotations

from datetime import datetime

from shared.storage import ObjectStore, StoredObject


def delete_old(objects: ObjectStore, entry: StoredObject, before: datetime) -> bool:
    """Deletes the entry if it was last written before `before`. Returns whether it was deleted.

    Raises as `ObjectStore` does.
    """
    if entry.modified >= before:
        return False
    modified = objects.modified(entry.key)  # the entry may have been written again after the list
    if modified is None or modified >= before:
        return False
    objects.delete(entry.key)
    return True
