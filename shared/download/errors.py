"""Errors of downloads."""

from __future__ import annotations

_LONGEST = 1000  # characters of a message: it may quote a server, and becomes part of a status


class SourceError(Exception):
    """A source failed.

    `transient` says whether a retry may succeed. `retry_after` is the delay in seconds that the source requested.
    """

    def __init__(self, message: str, *, transient: bool, retry_after: float | None = None) -> None:
        super().__init__(message if len(message) <= _LONGEST else message[:_LONGEST] + "...")
        self.transient = transient
        self.retry_after = retry_after


class ReleaseNotFound(SourceError):
    """The source answers, and does not have the release, or not yet."""

    def __init__(self, tag: str, where: str) -> None:
        super().__init__(f"no release {tag!r} in {where}", transient=False)
        self.tag = tag
