"""Knative's in-memory broker and its JetStream broker on the same events: speed, order, and what accidents lose.

They take turns. `BENCH_BROKERS` is the number of events sent at once (1000). Both need port 8080, and the JetStream
broker its programs: see tests/support/jetstream_broker.py.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

import urllib3

from functions import catalog
from infra.generate import eventing
from infra.local import crds
from shared.api.resources import CLUSTER
from shared.event import Event, change_event, issue
from shared.kube import dig
from shared.runtime import Answer
from tests.support.event_receiver import EventReceiver
from tests.support.jetstream_broker import NATS, JetStreamBroker
from tests.support.knative_broker import DISPATCHER, FILTER, INGRESS, KnativeBroker, install, knative_broker
from tests.support.objects import manifest

from .auditing import planes
from .parts import since

EVENTS = int(os.environ.get("BENCH_BROKERS", "1000"))
TURNS, RATE, SECONDS, SENDERS = 3, 50, 6, 8
OBJECTS, CHANGES = 20, 50
"""Of the measurement of order: so many objects, each changed so often."""
SLOW = 0.05
"""Seconds that a function takes for an event, where it does not answer at once."""
QUIET = 12.0
"""Seconds without a call after which the rest counts as lost."""
UNACKNOWLEDGED = 35.0
"""The same for the JetStream broker, which delivers again after 30 s what nobody has acknowledged."""
KINDS: dict[str, type[KnativeBroker]] = {"in-memory": KnativeBroker, "JetStream": JetStreamBroker}
NUMBER = "capi-functions.dev/bench"
FUNCTION = "addon_apply"
DELIVERY = {key: value for key, value in eventing.broker()["spec"]["delivery"].items() if key != "deadLetterSink"}


def run() -> None:
    _print_speed()
    _print_order()
    _print_accidents()


def _print_speed() -> None:
    figures = {name: Figures() for name in KINDS}
    for _ in range(TURNS):
        for name, kind in KINDS.items():
            with _chain(kind) as chain:
                _speed(chain, figures[name])
    for name, figure in figures.items():
        print(f"{name:<10} {figure}", flush=True)


def _print_order() -> None:
    for name, kind in KINDS.items():
        with _chain(kind) as chain:
            for title, refuses in (("all events are handled", 0), ("each tenth call is answered with 503", 10)):
                print(f"{name:<10} order, {title}: {_order(chain, refuses)}", flush=True)


def _print_accidents() -> None:
    for name, kind in KINDS.items():
        for title, accident in _accidents(kind).items():
            with _chain(kind) as chain:
                print(f"{name:<10} {title}: {_lost(chain, accident)}", flush=True)


class Chain:
    """A broker with our Triggers, and a server in place of all functions that counts the calls of one."""

    def __init__(self, broker: KnativeBroker, receiver: EventReceiver) -> None:
        self.broker, self.receiver = broker, receiver
        self.pool = ThreadPoolExecutor(SENDERS)
        self.quiet = UNACKNOWLEDGED if isinstance(broker, JetStreamBroker) else QUIET
        self.called: list[tuple[int, float]] = []
        """The numbers of events in the order of the calls, with their times."""
        self.answer: Callable[[int], Answer] = lambda _number: Answer(204)
        self._lock = Lock()
        self._http = urllib3.PoolManager(maxsize=2 * SENDERS)
        receiver.respond = self._respond

    def _respond(self, function: str, event: Event) -> Answer:
        number = dig(event.object, "metadata.annotations", {}).get(NUMBER)
        if function != FUNCTION or number is None:
            return Answer(204)
        with self._lock:
            self.called.append((int(number), time.perf_counter()))
        return self.answer(int(number))

    def send(self, number: int, name: str = "") -> float:
        """Sends an event until the broker takes it, as the forwarder does. Returns when the first attempt began."""
        metadata = {"uid": name, "resourceVersion": str(number + 1), "annotations": {NUMBER: str(number)}}
        body = manifest(CLUSTER, name or f"c{number}", "default", metadata=metadata)
        headers, data = issue(change_event(body, "update", source="/bench")).to_http()
        began = time.perf_counter()
        while True:
            try:
                answer = self._http.request(
                    "POST", self.broker.sink, headers=headers, body=data, timeout=10.0, retries=False
                )
            except urllib3.exceptions.HTTPError:
                answer = None
            if answer is not None and answer.status == 202:
                return began
            time.sleep(0.1)

    def until_still(self, seconds: float) -> None:
        """Waits until no event has come for so long."""
        last, at = -1, time.perf_counter()
        while since(at) < seconds:
            time.sleep(0.05)
            if (now := len(self.called)) != last:
                last, at = now, time.perf_counter()

    def wait(self, wanted: int) -> None:
        """Waits until so many calls have been made, or none has for a while."""
        last, at = -1, time.perf_counter()
        while len(self.called) < wanted and since(at) < self.quiet:
            time.sleep(0.01)
            if (now := len(self.called)) != last:
                last, at = now, time.perf_counter()


@contextmanager
def _chain(kind: type[KnativeBroker]) -> Iterator[Chain]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        [plane] = stack.enter_context(planes(Path(folder), "management"))
        crds.install(plane.client, crds.load())
        install(plane.client)
        broker = stack.enter_context(knative_broker(plane.client, plane.directory, Path(folder), kind))
        receiver = stack.enter_context(EventReceiver())
        broker.wire(
            catalog.triggers(profiles=("addons",)),
            lambda service: f"{receiver.url}/{service.replace('-', '_')}",
            DELIVERY,
        )
        broker.start()
        chain = Chain(broker, receiver)
        _warm(chain)
        yield chain


def _warm(chain: Chain) -> None:
    """Sends events until the broker delivers them: its programs answer before they know their Triggers."""
    while not chain.called:
        chain.send(-1)
        time.sleep(0.2)
    chain.until_still(2)
    chain.called.clear()


# -- speed -------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """Seconds from the first attempt to send an event to the call, and those until all of a burst are called."""

    steady: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)
    lost: int = 0

    def __str__(self) -> str:
        p50, p99 = (sorted(self.steady)[int(len(self.steady) * share)] * 1000 for share in (0.5, 0.99))
        bursts = "; ".join(
            f"{count} at once, {title}: {statistics.median(each):.1f} s, {count / statistics.median(each):.0f}/s"
            for title, count, each in (
                ("answered at once", EVENTS, self.burst),
                (f"each takes {SLOW * 1000:.0f} ms", EVENTS // 5, self.slow),
            )
        )
        return f"{RATE} events/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms; {bursts}; lost {self.lost}"


def _speed(chain: Chain, figures: Figures) -> None:
    began, count = time.perf_counter(), RATE * SECONDS
    sent = {}
    for number in range(count):
        sent[number] = chain.send(number)
        time.sleep(max(0.0, began + (number + 1) / RATE - time.perf_counter()))
    chain.wait(count)
    figures.steady += [at - sent[number] for number, at in chain.called]
    figures.lost += count - len(chain.called)
    for seconds, count, found in ((0.0, EVENTS, figures.burst), (SLOW, EVENTS // 5, figures.slow)):
        chain.called.clear()
        chain.answer = partial(_after, seconds)
        began = time.perf_counter()
        list(chain.pool.map(chain.send, range(count)))
        chain.wait(count)
        found.append(chain.called[-1][1] - began)
        figures.lost += count - len({number for number, _ in chain.called})


def _after(seconds: float, _number: int) -> Answer:
    time.sleep(seconds)
    return Answer(204)


# -- order -------------------------------------------------------------------------------------------------------


def _order(chain: Chain, refuses: int) -> str:
    """Sends the changes of each object one after the other; each call numbered so is refused, if `refuses`."""
    chain.called.clear()
    calls, handled, lock = Counter[int](), list[int](), Lock()

    def answer(number: int) -> Answer:
        with lock:
            calls[number] += 1
            if refuses and calls.total() % refuses == 0:
                return Answer(503)
            handled.append(number)
        return Answer(204)

    def change(name: int) -> None:
        for position in range(CHANGES):
            chain.send(name * CHANGES + position, f"c{name}")

    chain.answer = answer
    list(chain.pool.map(change, range(OBJECTS)))
    chain.until_still(chain.quiet)
    newest: dict[int, int] = {}
    overtaken = 0
    for number in handled:
        name = number // CHANGES
        overtaken += number < newest.get(name, -1)
        newest[name] = max(newest.get(name, -1), number)
    return f"of {len(handled)} handled events {overtaken} came after a later one about the same object"


# -- accidents ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accident:
    """What happens for so many seconds in a stream of events: programs are killed, the function answers 500."""

    programs: tuple[str, ...] = ()
    seconds: float = 1.0
    refuses: bool = False
    """Whether the function answers 500 from the first event on, so that accepted events wait."""
    then: tuple[str, ...] = ()
    """What is killed and started again at the end."""


def _accidents(kind: type[KnativeBroker]) -> dict[str, Accident]:
    middle = NATS if kind is JetStreamBroker else DISPATCHER
    found = {f"{name} killed for a second": Accident((name,)) for name in (INGRESS, FILTER, middle)}
    found["the function answers 500"] = Accident(seconds=5, refuses=True)
    for title, programs in ((middle, (middle,)), ("all", tuple(kind.programs))):
        found[f"the function answers 500, and {title} killed"] = Accident(programs, refuses=True)
    if kind is JetStreamBroker:
        found[f"{NATS} killed for a second, then the filter restarted"] = Accident((NATS,), then=(FILTER,))
    return found


def _lost(chain: Chain, accident: Accident) -> str:
    count, refuses = 300, accident.refuses
    handled: list[tuple[int, float]] = []

    def answer(number: int) -> Answer:
        if refuses:
            return Answer(500)
        handled.append((number, time.perf_counter()))
        return Answer(204)

    chain.answer = answer
    began = time.perf_counter()

    def paced(number: int) -> None:
        time.sleep(max(0.0, began + number / 100 - time.perf_counter()))
        chain.send(number)

    sent = chain.pool.map(paced, range(count))
    time.sleep(1.0)
    # In this thread, because the kernel ends processes with the thread that started them.
    if accident.programs:
        chain.broker.kill(*accident.programs)
    time.sleep(accident.seconds)
    if accident.programs:
        chain.broker.start(*accident.programs)
    refuses = False
    list(sent)
    if accident.then:
        chain.broker.kill(*accident.then)
        chain.broker.start(*accident.then)
    chain.until_still(chain.quiet)
    calls = Counter(number for number, _ in handled if number >= 0)
    doubled, at = sum(times > 1 for times in calls.values()), max((at for _, at in handled), default=began) - began
    lost = count - len(calls)
    return f"of {count} accepted events {lost} lost, {doubled} handled twice; the last one after {at:.1f} s"
