"""A list of names that a server may not have completed."""

from __future__ import annotations

from collections.abc import Iterable


class Listing(tuple[str, ...]):
    """Names. `problem` is empty for a complete list, else it says why names may be missing."""

    problem: str

    def __new__(cls, names: Iterable[str] = (), problem: str = "") -> Listing:
        """Creates a listing of `names`, incomplete if `problem` is not empty."""
        listing = super().__new__(cls, names)
        listing.problem = problem
        return listing
