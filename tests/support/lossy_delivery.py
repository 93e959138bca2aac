"""Loses, doubles and delays events, for tests whose end only the sweep makes sure of."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from events.delivery import HttpDelivery
from shared.event import PING, Event
from shared.runtime import Answer

KNOWN_SEEDS = (1, 2, 7)


def with_seeds(metafunc: pytest.Metafunc) -> None:
    """Gives a test the parameter `chaos_seed`: each run has another one; an exhaustive run takes more of them."""
    own = metafunc.config.option.seed
    more = (*KNOWN_SEEDS, own + 1, own + 2) if metafunc.config.option.exhaustive else ()
    if "chaos_seed" in metafunc.fixturenames:
        metafunc.parametrize("chaos_seed", [own, *more], ids=lambda seed: f"seed {seed}")


class LossyDelivery:
    """Delivers events to the functions, but loses some, and delivers others twice or late. Only the sweep is safe."""

    def __init__(self, url: str, seed: int) -> None:
        self._deliver = HttpDelivery(url)
        self._random = random.Random(seed)
        self.lost = 0

    def __call__(self, function: str, event: Event) -> Answer:
        chance = self._random.random()
        if chance < 0.4:
            self.lost += 1
            return Answer(204)
        if chance < 0.6:
            threading.Timer(self._random.uniform(0, 0.5), self._deliver, (function, event)).start()
        answer = self._deliver(function, event)
        # Answers that ask for another delivery are lost as well.
        return replace(answer, status=204 if answer.reply is None else 200, retry_after=None)


def sweep(deliver: HttpDelivery, number: int) -> Answer:
    """Delivers the event of the timer that starts a sweep."""
    return deliver("sweep", Event(type=PING, source="/test", id=str(number)))
