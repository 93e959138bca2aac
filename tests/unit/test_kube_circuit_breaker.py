"""Servers that hold others up get less and less of a process's time; the others lose none of theirs."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore

import pytest

from shared.kube import Client, Unavailable, circuit_breaker, connect
from shared.kube.circuit_breaker import CircuitBreaker, NotSent
from shared.kube.client import Limits
from tests.support.hostile import HostileServer, answering, hanging, kubeconfig


class World:
    """A clock that only tests move, and the outcome of requests."""

    def __init__(self, places: int = 3) -> None:
        self.now = 1000.0
        self.places = BoundedSemaphore(places)

    def server(self) -> CircuitBreaker:
        return CircuitBreaker(lambda: self.now, self.places)

    def ask(self, server: CircuitBreaker, *, takes: float = 0.01, fails: bool = False) -> str:
        try:
            with server.request("it is left alone"):
                self.now += takes
                if fails:
                    raise TimeoutError
        except NotSent as error:
            return f"left alone for {error.retry_after:.0f}"
        except TimeoutError:
            return "failed"
        return "answered"


def test_a_server_that_holds_up_is_left_alone_ever_longer() -> None:
    world = World()
    server, pauses = world.server(), []
    for _ in range(6):
        assert world.ask(server, takes=3, fails=True) == "failed"
        refused = world.ask(server)
        pauses.append(refused)
        world.now += float(refused.rpartition(" ")[2])
    assert pauses == [f"left alone for {seconds}" for seconds in (5, 10, 20, 40, 60, 60)]
    assert world.ask(server) == "answered"


def test_a_server_may_hold_up_for_days() -> None:
    world = World()
    server = world.server()
    for _ in range(2000):
        assert world.ask(server, takes=3, fails=True) == "failed"
        assert world.ask(server).startswith("left alone for")
        world.now += 60
    assert world.ask(server) == "answered"


def test_a_refused_connection_holds_nobody_up() -> None:
    world = World()
    server = world.server()
    assert {world.ask(server, fails=True) for _ in range(100)} == {"failed"}
    assert world.ask(server) == "answered"


def test_a_quick_answer_between_two_slow_ones_earns_no_trust() -> None:
    world = World()
    server = world.server()
    for pause in (5, 10, 20):
        world.ask(server, takes=10, fails=True)
        assert world.ask(server) == f"left alone for {pause}"
        world.now += pause
        assert world.ask(server) == "answered"


def test_a_server_is_trusted_again_after_a_good_minute() -> None:
    world = World()
    server = world.server()
    world.ask(server, takes=10, fails=True)
    world.now += 61
    assert world.ask(server) == "answered"
    world.ask(server, takes=10, fails=True)
    assert world.ask(server) == "left alone for 5"


def test_requests_that_fail_together_are_one_failure() -> None:
    world = World(places=8)
    server = world.server()
    requests = [server.request("") for _ in range(8)]
    for request in requests:
        request.__enter__()
    world.now += 10
    for request in requests:
        with suppress(TimeoutError):
            request.__exit__(TimeoutError, TimeoutError(), None)
    assert world.ask(server) == "left alone for 5"


def test_servers_on_probation_share_the_places_and_trusted_ones_need_none() -> None:
    world = World(places=1)
    trusted, stranger, other = world.server(), world.server(), world.server()
    assert world.ask(trusted) == "answered"
    with stranger.request(""):
        assert world.ask(other) == "left alone for 1"
        assert world.ask(trusted) == "answered"
    assert world.ask(other) == "answered"


def test_together_too_slow_counts_as_slow() -> None:
    world = World()
    server = world.server()
    world.ask(server)
    server.record_overrun()
    assert world.ask(server) == "left alone for 5"


def _client(url: str, seconds: float) -> Client:
    client = connect.workload(kubeconfig(url))
    client._limits = Limits(seconds, 1 << 20)
    return client


def _ask(client: Client) -> str:
    try:
        return client.text("/readyz", timeout=60)
    except Unavailable:
        return "down"


def test_thirty_five_dead_clusters_do_not_starve_the_next_one() -> None:
    """Eight workers, as the forwarder has. The dead ones let go only when all is over."""
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


def test_an_address_that_nobody_answers_is_given_up() -> None:
    """As a firewall does it: the connection is neither made nor refused."""
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
