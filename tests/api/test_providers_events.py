"""Phases of providers in the wrong order, twice, never, and from two places at once: the end is the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from functions import catalog
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT
from shared.event import Event, change_event
from shared.kube import dig
from shared.providers import phases
from tests.support.made_up import MANAGER, SPACE, MadeUp
from tests.support.provider_releases import config_map, publish, whole
from tests.support.provider_world import PHASES, Providers, is_ready
from tests.support.until import until


def late(core: MadeUp, step: str) -> Event:
    return phases.next_step(step, core.object, resync=False)


@pytest.mark.parametrize("step", [phases.CHECKED, phases.FETCHED, phases.INSTALLED])
def test_late_events_get_nothing_past_the_checks(core: MadeUp, providers: Providers, step: str) -> None:
    core.publish("v1.1.0")
    core.publish("v1.2.0")
    core.install("v1.2.0")
    core.want("v1.1.0")
    for _ in range(2):  # before the checks, and after them
        providers.send(late(core, step))
        assert core.value == "v1.2.0"
        core.look()
    assert core.told("PreflightCheckPassed")[0] == "False"


def test_a_workload_that_went_is_no_way_past_the_checks(core: MadeUp, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    core.install("v1.2.0")
    core.want("v1.1.0")
    core.look()
    deployment = providers.client.get(DEPLOYMENT, MANAGER)
    providers.client.delete(DEPLOYMENT, MANAGER)
    providers.tell(deployment, DEPLOYMENT, "delete")
    assert core.installed == "v1.2.0"
    assert core.value_of("made-up-settings") == "v1.2.0"


@pytest.mark.parametrize("through", [["provider_install"], PHASES], ids=["lost", "followed"])
def test_late_events_bring_nothing_from_a_former_source(
    core: MadeUp, providers: Providers, through: Sequence[str]
) -> None:
    """What another source has at the same version is checked, but not fetched yet."""
    for repository, content in (("org/one", "1"), ("org/two", "2")):
        publish(core.folder, "v1.1.0", [config_map("cluster-api", content)], repository=repository)
        core.want("v1.1.0", fetchConfig={"url": providers.url(CORE.file, repository=repository)})
        if content == "2":
            providers.send_to(["provider_preflight"], *core.key)
            providers.send(late(core, phases.FETCHED), through)
        core.until_ready()
        assert core.value == content


@pytest.mark.parametrize("seed", range(2))
def test_events_lost_doubled_and_shuffled(core: MadeUp, providers: Providers, seed: int) -> None:
    """Also those of the version before last; only what is asked again and again gets through at last."""
    chance, pool = random.Random(seed), list[Event]()

    def deliver_one() -> None:
        event = chance.choice(pool)
        if chance.random() < 0.6:
            pool.remove(event)
        for name in PHASES:
            if catalog.triggers()[name].primary_ref(event) is not None:
                answer = catalog.handler(name)(providers.clients, event)
                assert answer.status != 500, f"{name}: {answer.message}"
                if answer.reply is not None and chance.random() < 0.7:
                    pool.append(answer.reply)

    def step() -> bool:
        resync = chance.random() < 0.1
        pool.append(change_event(core.object, "update", source="/test", reference=True, resync=resync))
        pool.extend(
            change_event(each, "update", source="/test")
            for each in providers.client.list(DEPLOYMENT, SPACE, selector=PROVIDER_LABEL)
        )
        deliver_one()
        return is_ready(core.object)

    versions = ["v1.1.0", "v1.1.1", "v1.2.0"]
    for version in versions:
        core.publish(version, whole("made-up", version))
        core.want(version)
        until(step, f"{version} ready")
    while pool:
        deliver_one()
    provider = core.until_ready()
    assert dig(provider, "status.installedVersion") == core.value_of("made-up-settings") == versions[-1]
    assert providers.brought() == providers.listed(*core.key)
