"""Sends a recording again: through a dispatcher, or to any URL.

An event only names an object, so a recording may be replayed whole, twice or in any order, and against a cluster where
the objects are newer or gone: what the functions find there decides.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from shared.event import Event
from shared.kube import ApiError, Client, Object
from shared.kube.discovery import Discovery

from .delivery import HttpDelivery
from .dispatcher import Dispatcher, is_rejection

USER = "replay"
"""The field manager of replayed inputs: not our own, so that they count as the user's."""


def replay(
    events: Sequence[Event],
    dispatcher: Dispatcher,
    *,
    double: bool = False,
    shuffle_seed: int | None = None,
    pace: float | None = None,
    timeout: float = 60.0,
    ignore_waits_above: float = 1.0,
) -> bool:
    """Submits the events and tells whether all was done within `timeout` seconds (see `Dispatcher.drain`).

    Without `pace` each event is answered before the next is submitted, otherwise they follow each other after `pace`
    seconds and may overlap. `double` sends everything twice, `shuffle_seed` in an order drawn from it.
    """
    deadline = time.monotonic() + timeout
    order = random.Random(shuffle_seed)  # noqa: S311 - repeatable on purpose
    for _ in range(2 if double else 1):
        sequence = list(events)
        if shuffle_seed is not None:
            order.shuffle(sequence)
        for event in sequence:
            dispatcher.submit(event)
            if pace is None:
                dispatcher.drain(deadline - time.monotonic(), ignore_waits_above=0.0)
            else:
                time.sleep(pace)
        if not dispatcher.drain(deadline - time.monotonic(), ignore_waits_above):
            return False
    return True


def replay_to(
    url: str, events: Iterable[Event], *, pace: float = 0.0, attempts: int = 5, longest_wait: float = 30.0
) -> Counter[int]:
    """Posts the events to one URL, in order; how often each status was the last answer to an event.

    A failure is tried again, after `Retry-After` where it names one (at most `longest_wait`); a 202 is an answer.
    """
    statuses: Counter[int] = Counter()
    deliver = HttpDelivery(url, single=True)
    try:
        for event in events:
            for attempt in range(1, attempts + 1):
                answer = deliver("", event)
                if answer.status < 300 or is_rejection(answer) or attempt == attempts:
                    break
                named = answer.retry_after
                time.sleep(min(longest_wait, 0.2 * 2.0**attempt if named is None else named))
            statuses[answer.status] += 1
            time.sleep(pace)
    finally:
        deliver.close()
    return statuses


def apply_inputs(client: Client, inputs: Iterable[Object], *, manager: str = USER) -> list[Object]:
    """Applies what the user had applied, in order; the objects as the server has them now.

    Raises `ApiError` at the first that is refused, or whose kind is not served.
    """
    discovery = Discovery(client)
    applied = []
    for obj in inputs:
        resource = discovery.resource(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ApiError(f"{obj['kind']} of {obj['apiVersion']} is not served: is its CRD installed?")
        applied.append(client.apply(resource, obj, manager=manager))
    return applied
