"""What a function says back, and how that looks over HTTP to a broker, a forwarder or a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..event import Event


@dataclass(frozen=True)
class Answer:
    """The outcome of one event.

    204 done; 200 done with `reply` as the next step; 202 waiting, come back after `retry_after` seconds; 503 the same
    but held up by a failure; 400 not an event for this function, never to be repeated; 500 a bug. `message` is for
    logs and for the sender of a 400, `context` (cluster, release, stage: names, nothing secret) for logs alone.
    `settled`: done without a look at anything but the object itself.
    """

    status: int
    message: str = ""
    reply: Event | None = None
    retry_after: float | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    settled: bool = False

    @property
    def outcome(self) -> str:
        """In one word, as deliveries are counted."""
        if self.settled:
            return "settled"
        return _OUTCOMES.get(self.status) or ("refused" if 400 <= self.status < 500 else "failed")


_OUTCOMES = {200: "next", 202: "waiting", 204: "done", 503: "held-up"}


def done(
    message: str = "",
    *,
    reply: Event | None = None,
    again: float | None = None,
    context: Mapping[str, str] | None = None,
) -> Answer:
    """Success; `again` asks for another look after so many seconds."""
    status = 200 if reply is not None else 202 if again is not None else 204
    return Answer(status, message, reply, again, context or {})
