"""Loses, doubles and delays events, for tests whose end only the sweep makes sure of."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.event import PING, Event
from shared.kube import Client
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


@contextmanager
def lossy_functions(
    client: Client, log: Path, monkeypatch: pytest.MonkeyPatch, seed: int, *names: str
) -> Iterator[tuple[LossyDelivery, HttpDelivery]]:
    """Yields the lossy delivery of a forwarder for all functions, or those of these names, and a reliable one."""
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("K_SINK", f"http://127.0.0.1:{listener.getsockname()[1]}")
    functions = FunctionsServer(dict(os.environ), log)
    functions.start()
    lossy = LossyDelivery(functions.url, seed)
    declared = {name: one for name, one in catalog.triggers().items() if not names or name in names}
    forwarder = Forwarder(client, declared, lossy, listener=listener)
    forwarder.start()
    try:
        yield lossy, HttpDelivery(functions.url)
    finally:
        forwarder.stop()
        functions.close()


def sweep(deliver: HttpDelivery, number: int) -> Answer:
    """Delivers the event of the timer that starts a sweep."""
    return deliver("sweep", Event(type=PING, source="/test", id=str(number)))
