"""`python -m tests.bench [NAME ...]`: prints the figures of the budgets in ARCHITECTURE.md, without limits."""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import (
    brokers,
    charts_fleet,
    clusters,
    cold,
    fairness,
    fleet,
    forwarding,
    journey,
    local,
    noop,
    peers,
    planes,
    providers,
    release,
    render,
    rendering,
    rollout,
    scale,
    sources,
)

BENCHES: dict[str, Callable[[], None]] = {
    "cold": cold.run,
    "noop": noop.run,
    "rollout": rollout.run,
    "release": release.run,
    "forwarding": forwarding.run,
    "journey": journey.run,
    "fleet": fleet.run,
    "charts_fleet": charts_fleet.run,
    "peers": peers.run,
    "providers": providers.run,
    "render": render.run,
    "charts": rendering.run,
    "fairness": fairness.run,
}
ASKED_FOR: dict[str, Callable[[], None]] = {
    "scale": scale.run,
    "clusters": clusters.run,
    "sources": sources.run,
    "brokers": brokers.run,
    "planes": planes.run,
    "local": local.run,
    "charts_peer": charts_fleet.run_with_peer,
}
"""Run only where they are named: they take long."""


def main() -> None:
    for name in sys.argv[1:] or BENCHES:
        bench = {**BENCHES, **ASKED_FOR}.get(name)
        if bench is None:
            sys.exit(f"no bench {name!r}; there are: {', '.join([*BENCHES, *ASKED_FOR])}")
        print(f"== {name}: {bench.__module__}", flush=True)
        bench()


if __name__ == "__main__":
    main()
