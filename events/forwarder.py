"""Changes in, calls out: the watcher, the dispatcher and, if wanted, the ingress as one running thing.

Alone (`python -m events.forwarder`) it calls functions at `--functions URL`, or, with `--sink URL` or `K_SINK` in the
environment, posts every event to one place: as a ContainerSource or behind a SinkBinding it then takes the part of an
ApiServerSource that loses nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from shared.event import Event
from shared.kube import Client, Key
from shared.triggers import PrimaryRef, Triggers

from .delivery import Deliver, HttpDelivery
from .dispatcher import Dispatcher, OnDeadLetter, OnDelivery
from .ingress import Ingress
from .timer import Timer
from .watcher import Watcher

log = logging.getLogger("capi-functions.events")

OnEvent = Callable[[Event, Collection[str]], None]
"""Hears of each change before it is queued, with the functions that it concerns."""


@dataclass(frozen=True)
class AllEvents(Triggers):
    """Takes every event, one after the other for each object and type of event: a broker tells types apart."""

    def primary_ref(self, event: Event) -> PrimaryRef:
        about = event.subject if not event.kind else f"{event.group}/{event.kind}/{event.namespace}"
        return PrimaryRef(None, Key(f"{event.type}/{about}", event.name))


class Forwarder:
    """Delivers every change that `triggers` declare, and what the ingress takes in, through `deliver`.

    With `to_sink` every event goes to `deliver` once, whatever functions it concerns; the name it is given then is
    "sink". Without it, functions that a timer starts hear of one every `timer` seconds. An ingress is opened if a
    `port` (0: any) or a `listener` is given.
    """

    def __init__(
        self,
        client: Client,
        triggers: Mapping[str, Triggers],
        deliver: Deliver,
        *,
        to_sink: bool = False,
        workers: int = 8,
        rate: float = 500.0,
        resync: float = 600.0,
        timer: float = 3600.0,
        namespace: str = "",
        host: str = "127.0.0.1",
        port: int | None = None,
        listener: socket.socket | None = None,
        on_event: OnEvent | None = None,
        on_delivery: OnDelivery | None = None,
        on_dead_letter: OnDeadLetter | None = None,
    ) -> None:
        self._to_sink = to_sink
        self._triggers = triggers
        self._on_event = on_event
        routes = {"sink": AllEvents("sink")} if to_sink else triggers
        self.dispatcher = Dispatcher(
            routes, deliver, workers=workers, rate=rate, on_delivery=on_delivery, on_dead_letter=on_dead_letter
        )
        self.watcher = Watcher(client, triggers, self._changed, resync=resync, namespace=namespace)
        self._timer = None if to_sink else Timer(self.dispatcher.submit, every=timer)
        self.ingress: Ingress | None = None
        if port is not None or listener is not None:
            self.ingress = Ingress(self.dispatcher.submit, host=host, port=port or 0, listener=listener)

    def start(self) -> None:
        if self.ingress is not None:
            self.ingress.start()
        self.watcher.start()
        if self._timer is not None:
            self._timer.start()

    def wait_synced(self, timeout: float) -> bool:
        """True once every kind that is served was listed, so that its objects are on their way to the functions."""
        return self.watcher.wait_synced(timeout)

    def drain(self, timeout: float, ignore_waits_above: float = 1.0, *, quiet: float = 0.0) -> bool:
        """See `Dispatcher.drain`; `quiet` gives what the last calls wrote the time to come back as changes."""
        return self.dispatcher.drain(timeout, ignore_waits_above, quiet=quiet)

    def stop(self, drain: float = 0.0) -> None:
        """Stops taking events in, delivers what is queued for at most `drain` seconds, and ends."""
        self.watcher.stop()
        if self._timer is not None:
            self._timer.stop()
        if self.ingress is not None:
            self.ingress.stop()
        if drain and not self.dispatcher.drain(drain, ignore_waits_above=0.0):
            log.warning("stopped with work left: %s", self.dispatcher.pending())
        self.dispatcher.stop()

    def _changed(self, event: Event, functions: Collection[str]) -> None:
        if self._on_event is not None:
            self._on_event(event, functions)
        if not self._to_sink:
            self.dispatcher.submit(event, functions)
        elif any(self._triggers[name].key(event) is not None for name in functions):
            self.dispatcher.submit(event)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m events.forwarder", description=__doc__)
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--functions", metavar="URL", help="call each function at URL/<name>")
    target.add_argument(
        "--sink", metavar="URL", default=os.environ.get("K_SINK"), help="post everything here ($K_SINK)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to take in events from outside")
    parser.add_argument("--port", type=int, help="take in events from outside at this port (0: any)")
    parser.add_argument("--namespace", default="", help="watch this namespace only")
    parser.add_argument("--workers", type=int, default=8, help="calls at a time")
    parser.add_argument("--rate", type=float, default=500.0, help="calls per second")
    parser.add_argument("--resync", type=float, default=600.0, help="seconds until everything is sent again")
    options = parser.parse_args(arguments)
    if not (options.functions or options.sink):
        parser.error("give --functions URL or --sink URL, or set K_SINK")
    logging.basicConfig(
        level=os.environ.get("LOG_LEVEL", "INFO").upper(), format="%(asctime)s %(levelname)s %(message)s"
    )

    from importlib import import_module

    from shared.kube import connect

    try:
        management = connect.management()
    except connect.KubeconfigError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    triggers: Mapping[str, Triggers] = import_module("functions.catalog").triggers()
    to_sink = options.functions is None
    forwarder = Forwarder(
        management,
        triggers,
        HttpDelivery(options.functions or options.sink, single=to_sink),
        to_sink=to_sink,
        workers=options.workers,
        rate=options.rate,
        resync=options.resync,
        namespace=options.namespace,
        host=options.host,
        port=options.port,
    )
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    forwarder.start()
    if forwarder.ingress is not None:
        log.info("events from outside are taken at %s", forwarder.ingress.url)
    stopped.wait()
    forwarder.stop(drain=20.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
