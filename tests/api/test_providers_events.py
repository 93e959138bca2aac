"""Phases of providers in the wrong order, twice, never, and from two places at once: the end is the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from functions import catalog
from shared.api.provider import PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT
from shared.event import Event, change_event
from shared.kube import Key, dig
from shared.providers import phases
from tests.support.core_provider import CORE_KEY, SPACE, value, want
from tests.support.provider_releases import config_map, publish, whole
from tests.support.provider_world import PHASES, Providers, is_ready
from tests.support.until import until


def late(providers: Providers, step: str) -> Event:
    return phases.next_step(step, providers.get(*CORE_KEY), resync=False)


@pytest.mark.parametrize("step", [phases.CHECKED, phases.FETCHED, phases.INSTALLED])
def test_late_events_get_nothing_past_the_checks(providers: Providers, releases: Path, step: str) -> None:
    publish(releases, "v1.1.0", [config_map("one", "v1.1.0")])
    publish(releases, "v1.2.0", [config_map("one", "v1.2.0")])
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.1.0")
    for _ in range(2):  # before the checks, and after them
        providers.send(late(providers, step))
        assert value(providers, "one") == "v1.2.0"
        providers.settle(*CORE_KEY)
    assert providers.condition(providers.get(*CORE_KEY), "PreflightCheckPassed")["status"] == "False"


def test_a_workload_that_went_is_no_way_past_the_checks(providers: Providers, releases: Path) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        publish(releases, version, whole("made-up", version))
    want(providers, "v1.2.0")
    providers.until_ready(*CORE_KEY)
    want(providers, "v1.1.0")
    providers.settle(*CORE_KEY)
    key = Key(SPACE, "made-up-controller-manager")
    deployment = providers.client.get(DEPLOYMENT, key)
    providers.client.delete(DEPLOYMENT, key)
    providers.tell(deployment, DEPLOYMENT, "delete")
    assert dig(providers.get(*CORE_KEY), "status.installedVersion") == "v1.2.0"
    assert value(providers, "made-up-settings") == "v1.2.0"


@pytest.mark.parametrize("through", [["provider_install"], PHASES], ids=["lost", "followed"])
def test_late_events_bring_nothing_from_a_former_source(
    providers: Providers, releases: Path, through: Sequence[str]
) -> None:
    """What another source has at the same version is checked, but not fetched yet."""
    for repository, content in (("org/one", "1"), ("org/two", "2")):
        publish(releases, "v1.1.0", [config_map("one", content)], repository=repository)
        config = {"url": providers.url("core-components.yaml", repository=repository)}
        providers.apply(*CORE_KEY, version="v1.1.0", fetchConfig=config)
        if content == "2":
            providers.send_to(["provider_preflight"], *CORE_KEY)
            providers.send(late(providers, phases.FETCHED), through)
        providers.until_ready(*CORE_KEY)
        assert value(providers, "one") == content


@pytest.mark.parametrize("seed", range(2))
def test_events_lost_doubled_and_shuffled(providers: Providers, releases: Path, seed: int) -> None:
    """Also those of the version before last; only what is asked again and again gets through at last."""
    chance, pool = random.Random(seed), list[Event]()

    def deliver_one() -> None:
        event = chance.choice(pool)
        if chance.random() < 0.6:
            pool.remove(event)
        for name in PHASES:
            if catalog.triggers()[name].subject(event) is not None:
                answer = catalog.handler(name)(providers.clients, event)
                assert answer.status != 500, f"{name}: {answer.message}"
                if answer.reply is not None and chance.random() < 0.7:
                    pool.append(answer.reply)

    def step() -> bool:
        core = providers.get(*CORE_KEY)
        pool.append(change_event(core, "update", source="/test", reference=True, resync=chance.random() < 0.1))
        pool.extend(
            change_event(each, "update", source="/test")
            for each in providers.client.list(DEPLOYMENT, SPACE, selector=PROVIDER_LABEL)
        )
        deliver_one()
        return is_ready(providers.get(*CORE_KEY))

    versions = ["v1.1.0", "v1.1.1", "v1.2.0"]
    for version in versions:
        publish(releases, version, whole("made-up", version))
        want(providers, version)
        until(step, f"{version} ready")
    while pool:
        deliver_one()
    core = providers.until_ready(*CORE_KEY)
    assert dig(core, "status.installedVersion") == value(providers, "made-up-settings") == versions[-1]
    assert providers.brought() == providers.listed(*CORE_KEY)
