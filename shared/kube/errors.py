"""What an API server can answer, as exceptions that carry its own words.

The classes are the decisions that callers make: is it absent, is it a race, will waiting help, is the request wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request was refused. `status` is the HTTP code, `body` the server's Status object if it sent one.

    `detail` is the message without the request, for those who name the object themselves.
    """

    def __init__(
        self, message: str, *, status: int = 0, body: Mapping[str, Any] | None = None, detail: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body or {}
        self.detail = detail or message

    @property
    def reason(self) -> str:
        return str(self.body.get("reason") or "")


class NotFound(ApiError):
    """The object is not there. That its kind is not served is `NotServed`, which says nothing about objects."""


class NotServed(ApiError):
    """404 on the path: the server does not serve this kind in this version, now.

    It is no answer about objects: the kind may be served in another version only, its CRD may just have been created,
    an aggregated API server may be away. See `shared.kube.crds.list_defined` and `Discovery` for what can be concluded.
    """


NO_OBJECT: Mapping[str, Any] = {"reason": "NotFound"}
"""The `body` where it is known without asking the server."""


class Conflict(ApiError):
    """409: the object changed since it was read, exists already, or another manager holds a field."""

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Unavailable(ApiError):
    """The server is down, slow, throttling or failing inside: the same request may work later.

    `retry_after` is the server's own wish in seconds, where it sent one.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float | None = None, detail: str = "") -> None:
        super().__init__(message, status=status, detail=detail)
        self.retry_after = retry_after


class TooLarge(Unavailable):
    """The answer is larger than what is read."""


class Unauthorized(ApiError):
    """401: the credentials are not (or no longer) accepted."""


class Gone(ApiError):
    """410: a list or watch must start afresh."""
