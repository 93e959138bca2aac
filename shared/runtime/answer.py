"""What a function says back, and how that looks over HTTP to a broker, a forwarder or a replay."""

from __future__ import annotations

from dataclasses import dataclass

from ..event import Event


@dataclass(frozen=True)
class Answer:
    """The outcome of one event.

    204 done; 200 done with `reply` as the next step; 202 waiting, come back after `retry_after` seconds; 503 the same
    but held up by a failure; 400 not an event for this function, never to be repeated; 500 a bug. `message` is for
    logs and for the sender of a 400.
    """

    status: int
    message: str = ""
    reply: Event | None = None
    retry_after: float | None = None


def done(message: str = "", *, reply: Event | None = None, again: float | None = None) -> Answer:
    """Success; `again` asks for another look after so many seconds."""
    if reply is not None:
        return Answer(200, message, reply, again)
    if again is not None:
        return Answer(202, message, retry_after=again)
    return Answer(204, message)
