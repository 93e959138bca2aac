"""Events as a broker hands them on, and the replies that they lead to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from events.delivery import Deliver
from functions import catalog
from shared.event import Event
from shared.runtime import Answer


def takers(event: Event, among: Iterable[str] | None = None) -> list[str]:
    """The functions whom the event concerns."""
    triggers = catalog.triggers()
    return [name for name in (triggers if among is None else among) if triggers[name].key(event) is not None]


def passed_on(
    event: Event, first: Iterable[str], deliver: Deliver, then: Callable[[Event], Iterable[str]] = takers
) -> Iterator[tuple[str, Answer]]:
    """Who answered what: the `first` get the event, and `then` says who gets a reply. 500 is a bug."""
    todo = deque((name, event) for name in first)
    for _ in range(40):
        if not todo:
            return
        name, event = todo.popleft()
        answer = deliver(name, event)
        yield name, answer
        assert answer.status != 500, f"{name}: {answer.message}"
        if answer.reply is not None:
            todo += [(taker, answer.reply) for taker in then(answer.reply)]
