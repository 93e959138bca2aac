"""Rendering the real providers of Cluster API: in the process of the function, and with clusterctl."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from shared.api.provider import BY_KIND
from shared.components.render import render
from tests.support.provider_objects import provider as made
from tests.support.real_providers import CURRENT, DOWNLOADS, PROVIDERS, components, generate, repository

from .parts import median, since

ROUNDS = 5


def run() -> None:
    print(f"{'provider':<24} {'objects':>7} {'KiB':>6} {'ours s':>8} {'clusterctl s':>13}")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        configuration = repository(Path(folder), CURRENT)
        for one in PROVIDERS:
            text = (components(CURRENT) / DOWNLOADS / CURRENT / one.file).read_text()
            wanted = made(BY_KIND[one.type], one.name, version=CURRENT)
            ours = partial(render, text, provider=wanted, values={})
            count = len(ours().objects)  # the first call also imports modules and is not measured
            theirs = partial(generate, configuration, one, CURRENT, "capi-system")
            size = len(text.encode()) / 1024
            times = f"{_timed(ours):>8.3f} {_timed(theirs):>13.3f}"
            print(f"{one.label:<24} {count:>7} {size:>6.0f} {times}", flush=True)


def _timed(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(since(started))
    return median(seconds)
