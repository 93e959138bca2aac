"""Replays a recording: through a dispatcher, or to any URL.

An event is only a hint that names an object, because functions read the cluster before they act. So a recording can be
replayed twice or in any order, even to a cluster in which the objects have changed or no longer exist.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from shared.event import Event
from shared.kube import ApiError, Client, Object
from shared.kube.discovery import Discovery
from shared.runtime.answer import Answer

from .delivery import HttpDelivery
from .dispatcher import Dispatcher, is_rejection

FIELD_MANAGER = "replay"
"""The field manager of replayed inputs, because their fields belong to the user, not to functions."""


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
    """Submits the events and waits until the dispatcher is idle.

    Args:
        events: In the order of the recording.
        dispatcher: Delivers them.
        double: Submits all events twice.
        shuffle_seed: Submits the events in a random order with this seed.
        pace: Seconds between two events, whose deliveries may overlap. By default an event is submitted once the one
            before is answered.
        timeout: Seconds for the whole replay.
        ignore_waits_above: See `Dispatcher.drain`.

    Returns:
        Whether the dispatcher was idle within the timeout.
    """
    deadline = time.monotonic() + timeout
    order = random.Random(shuffle_seed)  # noqa: S311 - must be reproducible
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
    url: str,
    events: Iterable[Event],
    *,
    attempts: int = 5,
    longest_wait: float = 30.0,
    token: Path | None = None,
    progress: Callable[[Event, Answer], None] = lambda _event, _answer: None,
) -> Counter[int]:
    """Posts the events to one URL, in order.

    Args:
        url: Where to post to.
        events: In the order of the recording.
        attempts: The maximum number of attempts per event, which is repeated after an error or a request to retry.
        longest_wait: The maximum wait for a retry in seconds, even if `Retry-After` is longer.
        token: The file with the token for the receiver in a local run.
        progress: Called with each event and its last answer.

    Returns:
        The number of events by the HTTP status of their last answer.
    """
    statuses: Counter[int] = Counter()
    deliver = HttpDelivery(url, single=True, token=token)
    try:
        for event in events:
            for attempt in range(1, attempts + 1):
                answer = deliver("", event)
                if answer.status < 300 or is_rejection(answer) or attempt == attempts:
                    break
                requested = answer.retry_after
                time.sleep(min(longest_wait, 0.2 * 2.0**attempt if requested is None else requested))
            statuses[answer.status] += 1
            progress(event, answer)
    finally:
        deliver.close()
    return statuses


def apply_inputs(client: Client, inputs: Iterable[Object]) -> list[Object]:
    """Applies the recorded inputs in order and returns the objects as the API server stored them.

    Raises `ApiError` for the first object that is rejected or whose kind is not served.
    """
    discovery = Discovery(client)
    applied = []
    for obj in inputs:
        resource = discovery.resource(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ApiError(f"{obj['kind']} of {obj['apiVersion']} is not served: is its CRD installed?")
        applied.append(client.apply(resource, obj, manager=FIELD_MANAGER))
    return applied
