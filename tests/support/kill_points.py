"""Functions that are killed at a chosen write, and the choice of the writes to kill them at.

A journey (the life of a Cluster, an addon or a provider) is taken once to count its writes, to API servers, the object
store and a sink of events. Each kill point is a journey of its own. `--exhaustive` takes every point; the usual run
takes one for each kind of write, chosen by the run's seed.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event as Flag
from threading import Lock

import pytest
import urllib3

from events.delivery import HttpDelivery
from infra.local.functions_server import FunctionsServer
from shared.event import Event
from shared.kube import Object
from shared.kube.credentials import Credentials
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.api_proxy import Cut, Exchange, Fault, Proxy, Request, api_server, object_store_server
from tests.support.until import HANGS

_ALIKE = frozenset({"configmaps", "clusterroles", "deployments", "serviceaccounts", "services", "widgets"})
"""Kinds of objects that charts and components bring, and that the functions treat alike."""

_PATH = re.compile(r"^/apis?/.*?(?:/namespaces/[^/]+)?/(?P<plural>[a-z]+)(?:/[^/]+(?P<subresource>/[a-z]+)?)?$")


@dataclass(frozen=True)
class KillPoint:
    """The `number`-th write of a journey, `before` it reaches its server or after.

    `meanwhile` is what the user changes before the functions are back; empty for nothing.
    """

    number: int
    before: bool
    meanwhile: str = ""

    def __str__(self) -> str:
        return f"{'before' if self.before else 'after'} write {self.number}, then {self.meanwhile or 'no change'}"


class TooFewWrites(Exception):
    """A journey had only so many `writes`, and the functions were to be killed at a later one."""

    def __init__(self, writes: int) -> None:
        super().__init__(f"the journey ended after {writes} writes, before the kill")
        self.writes = writes


class KillSwitch:
    """A fault of a proxy that counts the writes, and kills the servers at one of them."""

    def __init__(self, servers: Sequence[FunctionsServer]) -> None:
        self._servers = servers
        self._lock = Lock()
        self.set(None)

    def set(self, point: KillPoint | None) -> None:
        """Starts to count anew; the server is killed at `point`."""
        self.point = point
        self.triggered, self.killed = Flag(), Flag()
        self.writes: list[Request] = []

    def __call__(self, request: Request) -> Fault | None:
        if not request.writes:
            return None
        with self._lock:
            self.writes.append(request)
            number = len(self.writes)
        return self._kill if self.point is not None and number == self.point.number else None

    def _kill(self, exchange: Exchange) -> None:
        if self.point is not None and not self.point.before:
            exchange.forward()
        self.triggered.set()
        for server in self._servers:
            server.kill()
        self.killed.set()
        raise Cut


class KillableFunctions:
    """Functions servers all of whose writes pass a kill switch; one journey after the other uses them.

    The first server has all functions, a second one may have `cluster_hooks`, which Cluster API calls.
    """

    def __init__(
        self, servers: Sequence[FunctionsServer], switch: KillSwitch, kubeconfig: bytes, releases: Path
    ) -> None:
        self.kubeconfig = kubeconfig
        """Of the API server behind the proxy: writes with it are counted as well."""
        self.releases = releases
        """The folder of the cluster stack releases."""
        self.while_down: Callable[[], object] = lambda: None
        """Called between the kill and the restart."""
        self._servers = servers
        self._switch = switch
        self._http = HttpDelivery(servers[0].url, timeout=(HANGS, HANGS))

    def kill_at(self, point: KillPoint | None) -> None:
        """Begins a journey: counts its writes, and kills the servers at `point`."""
        for server in self._servers:
            if server.process is None:  # the journey before failed
                server.start()
        self._switch.set(point)

    def end(self) -> list[Request]:
        """Ends a journey, and returns its writes. Raises `TooFewWrites` if it ended before the kill."""
        if self._switch.point is not None and not self._switch.killed.is_set():
            raise TooFewWrites(len(self.writes))
        return self.writes

    @property
    def writes(self) -> list[Request]:
        """The writes of this journey so far."""
        return self._switch.writes

    def deliver(self, function: str, event: Event) -> Answer:
        """Calls a function. If that killed the servers, they run again when this returns."""
        answer = self._http(function, event)
        self._recover()
        return answer

    def call_hook(self, path: str, cluster: Object) -> Object | None:
        """Calls a hook about the Cluster as Cluster API does; returns the response, None if the servers were killed."""
        body = json.dumps({"cluster": cluster})
        try:
            response = urllib3.request("POST", self._servers[1].url + path, body=body, timeout=HANGS, retries=False)
        except urllib3.exceptions.HTTPError:
            self._recover()
            return None
        assert response.status == 200, response.data
        found: Object = response.json()
        return found

    def restart(self) -> None:
        """Restarts the servers, as a new version of the functions does."""
        for server in self._servers:
            server.kill()
            server.start()

    def _recover(self) -> None:
        if self._switch.triggered.is_set():
            assert self._switch.killed.wait(HANGS)
            self._switch.triggered.clear()
            self.while_down()
            for server in self._servers:
                server.start()

    def close(self) -> None:
        self._http.close()


@contextmanager
def killable_functions(
    kubeconfig: Path, object_store: ObjectStore, object_store_url: str, folder: Path, *, hooks: bool = False
) -> Iterator[KillableFunctions]:
    """Runs a functions server in `folder`, between proxies of the API server, the object store and any K_SINK.

    With `hooks` there is a server of `cluster_hooks` as well.
    """
    with ExitStack() as stack:
        api = stack.enter_context(Proxy(api_server(kubeconfig)))
        storage = stack.enter_context(Proxy(object_store_server(object_store_url)))
        releases = folder / "releases"
        releases.mkdir(parents=True)
        (folder / "kubeconfig").write_bytes(api.kubeconfig)
        environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "RELEASE_SOURCE": str(releases),
            "S3_ENDPOINT_URL": storage.url,
            "CAPI_FUNCTIONS_BUCKET": object_store.bucket,
        }
        proxies = [api, storage]
        if sink := environment.get("K_SINK"):
            proxies.append(stack.enter_context(Proxy(Credentials(host=sink))))
            environment["K_SINK"] = proxies[-1].url
        servers = []
        for function in ("", "cluster_hooks")[: 1 + hooks]:
            servers.append(FunctionsServer(environment, folder / f"functions{function}.log", function=function))
            stack.callback(servers[-1].close)
            servers[-1].start()
        switch = KillSwitch(servers)
        for proxy in proxies:
            proxy.fault = switch
        functions = KillableFunctions(servers, switch, api.kubeconfig, releases)
        stack.callback(functions.close)
        yield functions


def kind_of_write(request: Request) -> str:
    """Returns what a write does to what kind of thing, such as "PATCH clusteraddons/status" or "PUT blobs".

    Kinds of objects that the functions treat alike are "objects".
    """
    if found := _PATH.match(request.path):
        plural = "objects" if found["plural"] in _ALIKE else found["plural"]
        return f"{request.method} {plural}{found['subresource'] or ''}"
    return f"{request.method} {''.join(request.path.split('/')[2:3])}"  # /bucket/blobs/…, or the path of a sink


def in_parts(metafunc: pytest.Metafunc, parts: int) -> None:
    """Gives a test the parameter `part`: an exhaustive run is shared by so many tests."""
    metafunc.parametrize("part", [(n, parts) for n in range(parts)] if metafunc.config.option.exhaustive else [(0, 1)])


def check_kills(
    take: Callable[[KillPoint | None], list[Request]],
    variants: Sequence[tuple[bool, str]],
    config: pytest.Config,
    part: tuple[int, int],
    most: int | None = None,
) -> None:
    """Takes a journey without a kill, then once for each kill point; fails with what did not end as it should.

    Args:
        take: Takes the journey and returns its writes, or raises AssertionError.
        variants: The values of `before` and `meanwhile` of the kill points.
        config: The options of the run.
        part: The number of this part of the kill points, and the number of parts.
        most: The most kill points of the usual run.
    """
    writes = take(None)

    def journey(point: KillPoint) -> None:
        again = take(point)
        assert len(again) <= 2 * len(writes), f"{len(again)} writes, {len(writes)} without the kill"

    points = chosen_points(writes, variants, config, most)[part[0] :: part[1]]
    print(f"{len(points)} kill points of a journey of {len(writes)} writes")
    failures = failures_at(points, writes, journey)
    assert not failures, "\n\n".join(failures)


def chosen_points(
    writes: Sequence[Request], variants: Sequence[tuple[bool, str]], config: pytest.Config, most: int | None
) -> list[KillPoint]:
    """Returns the points to kill at.

    An exhaustive run takes each write in each variant. The usual run takes a write of each kind in one variant, and of
    these at most so many.
    """
    if config.option.exhaustive:
        return [KillPoint(n, *variant) for n in range(1, len(writes) + 1) for variant in variants]
    chance = random.Random(config.option.seed)
    points = [KillPoint(number, *chance.choice(variants)) for number in one_of_each_kind(writes, chance)]
    return sorted(chance.sample(points, min(most or len(points), len(points))), key=lambda point: point.number)


def one_of_each_kind(writes: Sequence[Request], chance: random.Random) -> list[int]:
    """Returns the number (from 1) of a write of each kind, in their order."""
    numbers: dict[str, list[int]] = {}
    for number, write in enumerate(writes, 1):
        numbers.setdefault(kind_of_write(write), []).append(number)
    return sorted(chance.choice(numbers[kind]) for kind in sorted(numbers))


def failures_at(
    points: Iterable[KillPoint], writes: Sequence[Request], journey: Callable[[KillPoint], object]
) -> list[str]:
    """Takes the journey once for each point; returns what failed, of at most three failures."""
    failures: list[str] = []
    for point in points:
        if failure := _failure_at(point, writes, journey):
            failures.append(failure)
        if len(failures) == 3:
            break
    return failures


def _failure_at(point: KillPoint, writes: Sequence[Request], journey: Callable[[KillPoint], object]) -> str:
    """Takes the journey with its kill, and returns what failed.

    A status that tells of a wait is written as often as it changes: a journey may have fewer writes than the counted
    one. Then the functions are killed at the last of those in another one.
    """
    for _ in range(3):
        try:
            journey(point)
            return ""
        except TooFewWrites as error:
            point = replace(point, number=error.writes)
        except AssertionError as error:
            return f"killed {point}, {writes[point.number - 1]}: {error}"
    return "three journeys ended before the kill"
