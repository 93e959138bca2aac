"""Makes room among people who are logged in, so that a person with many logins keeps nobody out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import TypeVar

K = TypeVar("K")


def to_end(share: str, present: Mapping[K, tuple[str, float]]) -> K | None:
    """Returns the key of the entry that makes room for a new entry of a share: the oldest of the largest share.

    Args:
        share: The name of the share.
        present: The share of each entry, and when it was used last.

    Returns None if each share would have one entry.
    """
    largest, number = max(Counter([share, *(one for one, _ in present.values())]).items(), key=itemgetter(1))
    if number < 2:
        return None
    return min((key for key, (one, _) in present.items() if one == largest), key=lambda key: present[key][1])
