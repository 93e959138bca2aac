"""Two server processes that handle one provider: at once, or one of them stuck half-way in what was wanted before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from events.delivery import HttpDelivery
from infra import control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.provider import CORE
from shared.event import Event
from shared.kube import Key
from shared.providers import phases
from shared.runtime import Answer
from tests.support.api_proxy import Exchange, Proxy, Request, api_server, healthy
from tests.support.core_provider import CORE_KEY, SPACE, value, want
from tests.support.provider_releases import publish, whole
from tests.support.provider_world import Providers

NAME = "made-up"
DELIVERIES = 6


@pytest.fixture
def proxy(provider_plane: Path) -> Iterator[Proxy]:
    with Proxy(api_server(control_plane.kubeconfig(provider_plane))) as proxy:
        yield proxy


@pytest.fixture
def replicas(proxy: Proxy, providers: Providers, tmp_path: Path) -> Iterator[list[HttpDelivery]]:
    (tmp_path / "kubeconfig").write_bytes(proxy.kubeconfig)
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    providers.releases.append(tmp_path)
    with ExitStack() as stack:
        ways = []
        for number in range(2):
            server = FunctionsServer(environment, tmp_path / f"functions-{number}.log")
            stack.callback(server.close)
            server.start()
            ways.append(HttpDelivery(server.url, timeout=(2.0, 60.0)))
            stack.callback(ways[-1].close)
        yield ways


def settings(providers: Providers) -> str:
    return value(providers, f"{NAME}-settings")


def begun(providers: Providers) -> Event:
    """The event that starts the installation of what is wanted now, which was checked and fetched."""
    providers.send_to(["provider_preflight", "provider_fetch"], *CORE_KEY)
    return phases.next_step(phases.FETCHED, providers.get(*CORE_KEY), resync=False)


def test_the_same_event_in_two_replicas(
    providers: Providers, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(tmp_path, version, whole(NAME, version))
        want(providers, version)
        event = begun(providers)
        with ThreadPoolExecutor(DELIVERIES) as pool:
            answers = list(
                pool.map(lambda n, event=event: replicas[n % 2]("provider_install", event), range(DELIVERIES))
            )
        assert {answer.status for answer in answers} <= {200, 202, 204, 503}
        providers.until_ready(*CORE_KEY)
        assert settings(providers) == version
        assert providers.brought() == providers.listed(*CORE_KEY)
    before = len(proxy.writes())
    assert replicas[0]("provider_install", event).status == 204
    assert len(proxy.writes()) == before


@contextmanager
def straggling(providers: Providers, replica: HttpDelivery, proxy: Proxy, event: Event, version: str) -> Iterator[None]:
    """A replica is stuck half-way in installing this version until the end of the block, and then goes on."""
    awake, stuck = Flag(), Flag()

    def hold(exchange: Exchange) -> None:
        stuck.set()
        awake.wait(60)
        healthy(exchange)

    def held(request: Request) -> bool:
        return request.method == "PATCH" and "/status" not in request.path and version.encode() in request.body

    proxy.fail(hold, held)
    with ThreadPoolExecutor(1) as pool:
        straggler = pool.submit(replica, "provider_install", event)
        try:
            assert stuck.wait(30)
            yield
        finally:
            awake.set()
        answer: Answer = straggler.result()
        proxy.heal()
    assert answer.status != 500


def test_a_straggler_does_not_win(
    providers: Providers, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path
) -> None:
    for version in ("v1.1.0", "v1.2.0", "v1.3.0"):
        publish(tmp_path, version, whole(NAME, version))
    want(providers, "v1.1.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    with straggling(providers, replicas[1], proxy, begun(providers), "v1.2.0"):
        want(providers, "v1.3.0")
        providers.until_ready(*CORE_KEY)
    providers.until_ready(*CORE_KEY)
    assert settings(providers) == "v1.3.0"
    assert providers.brought() == providers.listed(*CORE_KEY)


@pytest.mark.parametrize("installed", [False, True], ids=["install", "upgrade"])
def test_a_deletion_wins(
    providers: Providers, replicas: list[HttpDelivery], proxy: Proxy, tmp_path: Path, installed: bool
) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(tmp_path, version, whole(NAME, version))
    if installed:
        want(providers, "v1.1.0")
        providers.until_ready(*CORE_KEY)
    want(providers, "v1.2.0")
    with straggling(providers, replicas[1], proxy, begun(providers), "v1.2.0"):
        providers.client.delete(CORE.resource, Key(SPACE, "cluster-api"))
        providers.settle(*CORE_KEY)
        assert providers.client.find(CORE.resource, Key(SPACE, "cluster-api")) is None
    assert providers.brought() == {}
