"""The latency from a change in the API server to the call of a function, at a steady rate of changes."""

from __future__ import annotations

import threading
import time

from events.forwarder import Forwarder
from shared.api.resources import CONFIG_MAP
from shared.event import Event
from shared.kube import Key
from shared.runtime import Answer, done
from shared.triggers import Triggers, Watch
from tests.support.releases import config_map

from .parts import management

RATE, SECONDS = 100, 10


def run() -> None:
    sent: dict[str, float] = {}
    latencies: list[float] = []
    lock = threading.Lock()

    def deliver(_function: str, event: Event) -> Answer:
        value = (event.object or {}).get("data", {}).get("k", "")
        with lock:
            if value in sent:
                latencies.append(time.perf_counter() - sent.pop(value))
        return done()

    with management() as (client, _):
        for number in range(RATE):
            client.create(CONFIG_MAP, config_map(f"f{number}", "start"))
        triggers = {"bench": Triggers("bench", (Watch(CONFIG_MAP),))}
        forwarder = Forwarder(client, triggers, deliver)
        forwarder.start()
        forwarder.wait_synced(30)
        forwarder.drain(10)
        cpu, begin = time.process_time(), time.perf_counter()
        for number in range(RATE * SECONDS):
            value = str(number)
            target = Key("default", f"f{number % RATE}")
            with lock:
                sent[value] = time.perf_counter()
            client.patch(CONFIG_MAP, target, {"data": {"k": value}})
            time.sleep(max(0.0, begin + (number + 1) / RATE - time.perf_counter()))
        forwarder.drain(10)
        cpu = time.process_time() - cpu
        forwarder.stop()
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
    print(f"{len(latencies)} of {RATE * SECONDS} changes, patch sent to function called (the write itself included):")
    print(
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, CPU {cpu / len(latencies) * 1000:.2f} ms a change, the writer's included"
    )
