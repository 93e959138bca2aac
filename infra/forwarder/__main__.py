"""`python -m infra.forwarder`: watches the management cluster for all functions of the chosen profiles.

It calls functions at `--functions URL`. With `--sink URL` or `K_SINK` it posts every event to one URL: as a
ContainerSource or behind a SinkBinding it replaces an ApiServerSource and loses no event.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from events import lease
from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from events.informer import SILENCE
from events.new_triggers import NewTriggers
from events.probes import Probes, publish
from events.shard import ALL, Shard
from functions import catalog
from shared import profiles, tracing
from shared.kube import Key, connect
from shared.runtime import callers, logs
from shared.settings import SETTINGS, namespaces

log = logging.getLogger("capi-functions.events")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a forwarder until SIGTERM or SIGINT, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.forwarder", description=__doc__)
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--functions", metavar="URL", help="call each function at URL/<name>, or with its name for {function} in URL"
    )
    target.add_argument(
        "--sink", metavar="URL", default=os.environ.get("K_SINK"), help="post everything here ($K_SINK)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to receive events at")
    parser.add_argument("--port", type=int, help="receive events at this port (0: a free one)")
    parser.add_argument(
        "--health-port", metavar="PORT", type=int, help="serve /healthz, /readyz and /metrics here (0: a free port)"
    )
    parser.add_argument(
        "--health-host", metavar="ADDRESS", default="", help="address of the health port (default: all addresses)"
    )
    parser.add_argument(
        "--watch-silence",
        metavar="SECONDS",
        type=float,
        default=SILENCE,
        help="seconds without an event until a watch is opened again; after 1.5 times this time it counts as hung",
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME,...",
        default=",".join(namespaces(SETTINGS)),
        help="watch these namespaces only ($CAPI_FUNCTIONS_NAMESPACES)",
    )
    parser.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        type=_key,
        help="deliver only while holding this Lease, stand by otherwise; each shard has its own",
    )
    parser.add_argument("--lease-seconds", type=int, default=round(lease.DURATION), help="take the Lease after so long")
    parser.add_argument(
        "--shard",
        metavar="I/N",
        type=_shard,
        default=ALL,
        help="deliver for part I (from 0) of N parts of the namespaces",
    )
    parser.add_argument("--workers", type=int, default=8, help="calls at a time")
    parser.add_argument("--rate", type=float, default=500.0, help="calls per second")
    parser.add_argument("--resync", type=float, default=600.0, help="seconds between resyncs of all objects")
    parser.add_argument(
        "--profile",
        metavar="NAME,...",
        default=SETTINGS.get("CAPI_FUNCTIONS_PROFILES", "all"),
        help="forward to the functions of these profiles ($CAPI_FUNCTIONS_PROFILES): " + ", ".join(profiles.NAMES),
    )
    parser.add_argument(
        "--without", metavar="NAME,...", default="", help="forward no events to these functions, which do not run"
    )
    options = parser.parse_args(arguments)
    if not (options.functions or options.sink):
        parser.error("give --functions URL or --sink URL, or set K_SINK")
    try:
        wanted = profiles.parse(options.profile)
    except ValueError as error:
        parser.error(f"--profile: {error}")
    try:
        management = connect.management()
    except connect.KubeconfigError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    to_sink, token = options.functions is None, callers.token_file()
    forwarder = Forwarder(
        management,
        catalog.triggers(without=options.without.split(","), profiles=wanted),
        HttpDelivery(options.functions or options.sink, single=to_sink, token=None if to_sink else token),
        to_sink=to_sink,
        workers=options.workers,
        rate=options.rate,
        resync=options.resync,
        namespace=options.namespace,
        shard=options.shard,
        standby=options.lease is not None,
        host=options.host,
        port=options.port,
        silence=options.watch_silence,
        token=token,
    )
    probes = None
    if options.health_port is not None:
        probes = Probes(forwarder.activity, host=options.health_host, port=options.health_port)
        probes.start()
        log.info("answering probes at port %d", probes.port)
    stopped, lost = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())

    def give_up() -> None:
        lost.set()
        stopped.set()

    def take_over() -> None:
        if triggers is not None:
            triggers.start()
        forwarder.activate()

    triggers = holder = None
    if options.lease is not None:
        if to_sink:
            triggers = NewTriggers(management, options.lease.namespace, forwarder.repeat)
        holder = lease.LeaseHolder(
            management,
            Key(options.lease.namespace, options.shard.lease(options.lease.name)),
            on_taken=take_over,
            on_lost=give_up,
            duration=options.lease_seconds,
            problems=forwarder.problems,
        )
        holder.start()
    publish(forwarder, options.shard, holder)
    forwarder.start()
    if forwarder.ingress is not None:
        log.info("receiving events at %s", forwarder.ingress.url)
    while not stopped.is_set() and not forwarder.wait_synced(0.5):
        continue
    log.info("all kinds are listed")
    stopped.wait()
    if triggers is not None:
        triggers.stop()
    forwarder.stop(drain=0.0 if lost.is_set() else 20.0)
    if holder is not None:
        holder.release()
    if probes is not None:
        probes.stop()
    return 1 if lost.is_set() else 0


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return Key(namespace, name)


if __name__ == "__main__":
    logs.set_up()
    tracing.set_up()
    sys.exit(main())
