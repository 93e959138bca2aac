"""Delivers events, and the replies to them, as a broker does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from events.delivery import Deliver
from functions import catalog
from shared.event import Event
from shared.runtime import Answer


def subscribers(event: Event, among: Iterable[str] | None = None) -> list[str]:
    """Returns the functions that the event is for."""
    triggers = catalog.triggers()
    return [name for name in (triggers if among is None else among) if triggers[name].key(event) is not None]


def deliver_with_replies(
    event: Event, first: Iterable[str], deliver: Deliver, then: Callable[[Event], Iterable[str]] = subscribers
) -> Iterator[tuple[str, Answer]]:
    """Delivers the event to the functions `first`, and each reply to those that `then` returns; yields all answers.

    Fails for an answer of 500.
    """
    pending = deque((name, event) for name in first)
    for _ in range(40):
        if not pending:
            return
        name, event = pending.popleft()
        answer = deliver(name, event)
        yield name, answer
        assert answer.status != 500, f"{name}: {answer.message}"
        if answer.reply is not None:
            pending += [(name, answer.reply) for name in then(answer.reply)]
