"""The answer of a function to one event. `http.py` makes an HTTP response of it, `logs.py` a log line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..event import Event, issue
from ..kube import ApiError, Unavailable
from ..storage import StorageError, StorageUnavailable


@dataclass(frozen=True)
class Answer:
    """The answer to one event.

    Statuses:
        204: done, or nothing to do.
        200: done; `reply` is the CloudEvent that starts the next step.
        202: waiting for something outside; to be delivered again after `retry_after` seconds.
        503: transient error; to be delivered again after `retry_after` seconds.
        400: not a valid event for this function; never to be delivered again.
        500: a bug.

    `message` is for logs, and for the sender of an event that is answered with 400 or above. `context` is for logs
    alone: names such as cluster, release and stage, nothing secret. `reconciled` is set if the object was already
    reconciled and nothing else was read.
    """

    status: int
    message: str = ""
    reply: Event | None = None
    retry_after: float | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    reconciled: bool = False

    @property
    def outcome(self) -> str:
        """The `outcome` label of `capi_functions_deliveries_total`."""
        if self.reconciled:
            return "reconciled"
        return _OUTCOMES.get(self.status) or ("refused" if 400 <= self.status < 500 else "failed")


_OUTCOMES = {200: "next", 202: "waiting", 204: "done", 503: "transient"}


def done(
    message: str = "",
    *,
    reply: Event | None = None,
    retry_after: float | None = None,
    context: Mapping[str, str] | None = None,
) -> Answer:
    """Returns an answer of success: 200 with a `reply`, which is issued, 202 with `retry_after` (seconds), else 204."""
    status = 200 if reply is not None else 202 if retry_after is not None else 204
    return Answer(status, message, issue(reply) if reply is not None else None, retry_after, context or {})


def failed(error: ApiError | StorageError) -> Answer:
    """Returns the answer after an error of an API server or of object storage: the event is to be delivered again."""
    if isinstance(error, Unavailable | StorageUnavailable):
        return Answer(503, str(error), retry_after=getattr(error, "retry_after", None) or 2.0)
    # A user must correct the settings or the content of the storage.
    return Answer(503, str(error), retry_after=60.0 if isinstance(error, StorageError) else 10.0)
