"""Errors of downloads."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5
"""Releases that a message names."""
_COMPARED = 500
_LONGEST = 1000  # characters of a message, which may quote a server, and becomes part of a status


class SourceError(Exception):
    """A source failed.

    `transient` says whether a retry may succeed. `retry_after` is the delay in seconds that the source requested.
    `unauthorized` says whether the source rejects the credentials, or misses them (HTTP 401).
    """

    def __init__(
        self, message: str, *, transient: bool, retry_after: float | None = None, unauthorized: bool = False
    ) -> None:
        super().__init__(message if len(message) <= _LONGEST else message[:_LONGEST] + "...")
        self.transient = transient
        self.retry_after = retry_after
        self.unauthorized = unauthorized


class ReleaseNotFound(SourceError):
    """The source answers, but does not have the release (yet). `offered` names the releases that it has."""

    def __init__(self, tag: str, where: str, offered: Sequence[str] = ()) -> None:
        shown = f"; it has {', '.join(_closest(tag, offered))}" if offered else ""
        super().__init__(f"no release {tag!r} in {where}{shown}", transient=False)
        self.tag = tag


def _closest(tag: str, offered: Sequence[str]) -> Sequence[str]:
    """Returns the names that resemble the tag most, in the order of `offered`."""
    if len(offered) <= _NAMED:
        return offered
    from difflib import get_close_matches  # here, because only this error needs it

    closest = get_close_matches(tag, offered[:_COMPARED], _NAMED, cutoff=0)
    return [*(name for name in offered if name in closest), f"and {len(offered) - _NAMED} more"]
