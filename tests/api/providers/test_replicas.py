"""Two server processes handle one provider: concurrently, or one of them delayed in an outdated rollout."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from events.delivery import HttpDelivery
from infra import local_control_plane
from shared.event import Event
from shared.providers import phases
from shared.runtime import Answer
from tests.support.api_proxy import Exchange, Proxy, Request, api_server, healthy
from tests.support.fake_provider import FakeProvider
from tests.support.provider_releases import whole
from tests.support.provider_world import Providers
from tests.support.replicas import two_replicas
from tests.support.until import HANGS

NAME = "made-up"
DELIVERIES = 6


@pytest.fixture
def proxy(provider_plane: Path) -> Iterator[Proxy]:
    with Proxy(api_server(local_control_plane.kubeconfig(provider_plane))) as proxy:
        yield proxy


@pytest.fixture
def replicas(proxy: Proxy, tmp_path: Path) -> Iterator[list[HttpDelivery]]:
    with two_replicas(proxy.kubeconfig, tmp_path) as replicas:
        yield replicas


def settings(core: FakeProvider) -> str:
    return core.value_of(f"{NAME}-settings")


def begun(core: FakeProvider) -> Event:
    """Returns the event that starts the installation of the present spec, which was checked and fetched."""
    core.providers.send_to(["provider_preflight", "provider_fetch"], *core.key)
    return phases.completion_event(phases.FETCHED, core.object, resync=False)


def test_two_replicas_handle_the_same_event(
    core: FakeProvider, providers: Providers, replicas: list[HttpDelivery], proxy: Proxy
) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole(NAME, version))
        core.apply(version)
        event = begun(core)
        with ThreadPoolExecutor(DELIVERIES) as pool:
            answers = list(
                pool.map(lambda n, event=event: replicas[n % 2]("provider_install", event), range(DELIVERIES))
            )
        assert {answer.status for answer in answers} <= {200, 202, 204, 503}
        core.until_ready()
        assert settings(core) == version
        assert providers.brought() == providers.listed(*core.key)
    before = len(proxy.writes())
    assert replicas[0]("provider_install", event).status == 204
    assert len(proxy.writes()) == before


@contextmanager
def straggling(replica: HttpDelivery, proxy: Proxy, event: Event, version: str) -> Iterator[None]:
    """Delays a replica in the installation of this version until the end of the block."""
    awake, stuck = Flag(), Flag()

    def hold(exchange: Exchange) -> None:
        stuck.set()
        awake.wait(HANGS)
        healthy(exchange)

    def held(request: Request) -> bool:
        return request.method == "PATCH" and "/status" not in request.path and version.encode() in request.body

    proxy.fail(hold, held)
    with ThreadPoolExecutor(1) as pool:
        straggler = pool.submit(replica, "provider_install", event)
        try:
            assert stuck.wait(HANGS)
            yield
        finally:
            awake.set()
        answer: Answer = straggler.result()
        proxy.heal()
    assert answer.status != 500


def test_delayed_replica_does_not_overwrite_a_newer_version(
    core: FakeProvider, providers: Providers, replicas: list[HttpDelivery], proxy: Proxy
) -> None:
    for version in ("v1.1.0", "v1.2.0", "v1.3.0"):
        core.publish(version, whole(NAME, version))
    core.install("v1.1.0")
    core.apply("v1.2.0")
    with straggling(replicas[1], proxy, begun(core), "v1.2.0"):
        core.install("v1.3.0")
    core.until_ready()
    assert settings(core) == "v1.3.0"
    assert providers.brought() == providers.listed(*core.key)


@pytest.mark.parametrize("installed", [False, True], ids=["install", "upgrade"])
def test_delayed_replica_leaves_nothing_of_a_deleted_provider(
    core: FakeProvider, providers: Providers, replicas: list[HttpDelivery], proxy: Proxy, installed: bool
) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole(NAME, version))
    if installed:
        core.install("v1.1.0")
    core.apply("v1.2.0")
    with straggling(replicas[1], proxy, begun(core), "v1.2.0"):
        core.delete()
        assert core.gone
    assert providers.brought() == {}
