"""The errors of an API server as exceptions that carry the server's own message.

The classes follow the decisions that callers make: the object is absent, the write lost a race, a retry may help, the
request is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


class ApiError(Exception):
    """A request was refused. `status` is the HTTP code, `body` the server's Status object if it sent one.

    `detail` is the message without the request, for callers that name the object themselves.
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
        """The reason of the server's Status object, such as `AlreadyExists`; empty if there is none."""
        return str(self.body.get("reason") or "")


class NotFound(ApiError):
    """The object does not exist. A kind that is not served raises `NotServed` instead, as its objects may exist."""


class NotServed(ApiError):
    """404 for the path: the server does not serve this kind in this version now.

    Objects may exist nevertheless, because the kind may only be served in another version, its CRD may be new, or an
    aggregated API server may be down. `shared.kube.crds.list_defined` and `Discovery` distinguish these cases.
    """


NOT_FOUND_BODY: Mapping[str, Any] = {"reason": "NotFound"}
"""The `body` of a `NotFound` that is raised without a request."""


class Conflict(ApiError):
    """409: the object changed since it was read, exists already, or another manager holds a field.

    Also 422 if the object of this name has another uid than the request.
    """

    @property
    def already_exists(self) -> bool:
        """Whether a create failed because the object exists."""
        return self.reason == "AlreadyExists"

    def raise_if_refused(self, decided_on: Mapping[str, Any], present: Mapping[str, Any] | None, field: str) -> None:
        """Raises `ApiError` if the object is unchanged since the decision, so that an immediate retry cannot help.

        An admission webhook chooses the status of its denial, so it can answer 409, too.

        Args:
            decided_on: The object that the write was decided on.
            present: The object as the server has it now; None if it is gone.
            field: The field of `metadata` whose change causes a conflict: `uid` or `resourceVersion`.
        """
        if present is not None and present["metadata"].get(field) == decided_on["metadata"].get(field):
            raise ApiError(str(self), status=409, body=self.body, detail=self.detail) from self


class Unavailable(ApiError):
    """The server is down, slow, throttling or has an internal error: the same request may succeed later.

    `retry_after` is the server's `Retry-After` in seconds, if it sent one.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float | None = None, detail: str = "") -> None:
        super().__init__(message, status=status, detail=detail)
        self.retry_after = retry_after


class TooLarge(Unavailable):
    """The response exceeds the size limit."""


class Silent(Unavailable):
    """An open watch brought neither an event nor a bookmark for too long, so its connection may be dead."""


class Unauthorized(ApiError):
    """401: the credentials are not (or no longer) accepted."""


class Gone(ApiError):
    """410: the resource version is too old, the list or watch must start anew."""


def is_rejection(error: Exception | None) -> TypeGuard[ApiError]:
    """Returns whether the API server rejects the content of a request, so that a retry cannot help."""
    other = (Unavailable, Conflict, NotFound, Unauthorized, Gone)
    return isinstance(error, ApiError) and not isinstance(error, other)
