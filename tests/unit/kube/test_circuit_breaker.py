"""The circuit breaker of workload API servers: dead servers cost little time, and healthy ones are not affected."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from shared.fairness import Turns
from shared.kube import Client, Unavailable, circuit_breaker, connect
from shared.kube.circuit_breaker import CircuitBreaker, NotSent
from shared.kube.transport import ResponseLimits
from tests.support.hostile import HostileServer, answering, hanging, kubeconfig


class World:
    """A clock that only tests advance, and the outcome of requests."""

    def __init__(self, slots: int = 3) -> None:
        self.now = 1000.0
        self.slots = Turns(slots)

    def server(self) -> CircuitBreaker:
        return CircuitBreaker(lambda: self.now, self.slots)

    def request(self, server: CircuitBreaker, *, takes: float = 0.01, fails: bool = False) -> str:
        try:
            with server.request("no request"):
                self.now += takes
                if fails:
                    raise TimeoutError
        except NotSent as error:
            return f"paused for {error.retry_after:.0f}"
        except TimeoutError:
            return "failed"
        return "answered"


def test_pause_doubles_with_each_slow_failure_up_to_a_minute() -> None:
    world = World()
    server, pauses = world.server(), []
    for _ in range(6):
        assert world.request(server, takes=3, fails=True) == "failed"
        refused = world.request(server)
        pauses.append(refused)
        world.now += float(refused.rpartition(" ")[2])
    assert pauses == [f"paused for {seconds}" for seconds in (5, 10, 20, 40, 60, 60)]
    assert world.request(server) == "answered"


def test_pause_stays_bounded_after_thousands_of_failures() -> None:
    world = World()
    server = world.server()
    for _ in range(2000):
        assert world.request(server, takes=3, fails=True) == "failed"
        assert world.request(server).startswith("paused for")
        world.now += 60
    assert world.request(server) == "answered"


def test_fast_failures_do_not_open_the_breaker() -> None:
    world = World()
    server = world.server()
    assert {world.request(server, fails=True) for _ in range(100)} == {"failed"}
    assert world.request(server) == "answered"


def test_one_success_between_slow_failures_does_not_reset_the_pause() -> None:
    world = World()
    server = world.server()
    for pause in (5, 10, 20):
        world.request(server, takes=10, fails=True)
        assert world.request(server) == f"paused for {pause}"
        world.now += pause
        assert world.request(server) == "answered"


def test_pause_is_reset_after_a_minute_without_failure() -> None:
    world = World()
    server = world.server()
    world.request(server, takes=10, fails=True)
    world.now += 61
    assert world.request(server) == "answered"
    world.request(server, takes=10, fails=True)
    assert world.request(server) == "paused for 5"


def test_concurrent_failures_count_once() -> None:
    world = World(slots=8)
    server = world.server()
    requests = [server.request("") for _ in range(8)]
    for request in requests:
        request.__enter__()
    world.now += 10
    for request in requests:
        with suppress(TimeoutError):
            request.__exit__(TimeoutError, TimeoutError(), None)
    assert world.request(server) == "paused for 5"


def test_unproven_servers_share_slots_and_proven_ones_need_none() -> None:
    world = World(slots=1)
    trusted, stranger, other = world.server(), world.server(), world.server()
    assert world.request(trusted) == "answered"
    with stranger.request(""):
        assert world.request(other) == "paused for 1"
        assert world.request(trusted) == "answered"
    assert world.request(other) == "answered"


def test_server_that_answers_slowly_needs_a_slot_until_it_answers_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_breaker, "SLOW_SLOT_WAIT", 0.1)
    world = World(slots=1)
    slow, stranger = world.server(), world.server()
    assert world.request(slow, takes=9) == "answered"
    with stranger.request(""):
        assert world.request(slow, takes=9).startswith("paused"), "slow answers prove nothing"
    for _ in range(5):
        assert world.request(slow) == "answered"
    with stranger.request(""):
        assert world.request(slow) == "answered"


def test_one_slow_answer_among_fast_ones_costs_a_server_nothing() -> None:
    world = World(slots=1)
    server, stranger = world.server(), world.server()
    for takes in (0.1, 1.8):
        assert world.request(server, takes=takes) == "answered"
    with stranger.request(""):
        assert world.request(server) == "answered"


def test_overrun_of_several_requests_counts_as_slow_failure() -> None:
    world = World()
    server = world.server()
    world.request(server)
    server.record_overrun()
    assert world.request(server) == "paused for 5"


def _client(url: str, seconds: float) -> Client:
    client = connect.workload(kubeconfig(url))
    client._transport.limits = ResponseLimits(seconds, 1 << 20)
    return client


def _ask(client: Client) -> str:
    try:
        return client.text("/readyz", timeout=60)
    except Unavailable:
        return "down"


def test_thirty_five_dead_clusters_do_not_starve_a_healthy_one() -> None:
    """Eight workers, as in the forwarder. Requests to dead servers only end with the test."""
    with (
        ThreadPoolExecutor(8) as workers,
        HostileServer(hanging) as dead,
        HostileServer(answering(b"ok")) as alive,
    ):
        healthy = _client(alive.url, 60)
        assert _ask(healthy) == "ok"
        waiting = [workers.submit(_ask, _client(dead.url, 60)) for _ in range(35)]
        assert workers.submit(_ask, healthy).result(30) == "ok"
        assert len(dead.seen) <= circuit_breaker.MAX_UNPROVEN_REQUESTS
        assert not all(one.done() for one in waiting)


def test_unanswered_connection_times_out_and_opens_the_breaker() -> None:
    """Like behind a firewall, the connection is neither accepted nor refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        held = [socket.socket() for _ in range(3)]
        for sock in held:
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.connect(("127.0.0.1", port))
        time.sleep(0.05)
        client = _client(f"http://127.0.0.1:{port}", 1.5)
        with pytest.raises(Unavailable, match="no answer in time"):
            client.text("/readyz")
        with pytest.raises(NotSent, match="gets no requests for the next"):
            client.text("/readyz")
        for sock in held:
            sock.close()
