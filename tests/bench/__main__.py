"""`python -m tests.bench [NAME ...]`: prints the figures of the budgets in ARCHITECTURE.md, without limits."""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import cold, fleet, forwarding, journey, noop, peers, providers, render, rendering, rollout

BENCHES: dict[str, Callable[[], None]] = {
    "cold": cold.run,
    "noop": noop.run,
    "rollout": rollout.run,
    "forwarding": forwarding.run,
    "journey": journey.run,
    "fleet": fleet.run,
    "peers": peers.run,
    "providers": providers.run,
    "render": render.run,
    "charts": rendering.run,
}


def main() -> None:
    for name in sys.argv[1:] or BENCHES:
        if name not in BENCHES:
            sys.exit(f"no bench {name!r}; there are: {', '.join(BENCHES)}")
        print(f"== {name}: {BENCHES[name].__module__}", flush=True)
        BENCHES[name]()


if __name__ == "__main__":
    main()
