"""Late, lost, doubled and reordered events of the phases lead to the same result."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from functions import catalog
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.provider import CORE, PROVIDER_LABEL
from shared.api.resources import DEPLOYMENT
from shared.event import Event, change_event
from shared.kube import dig
from shared.providers import phases
from tests.support.fake_provider import MANAGER, SPACE, FakeProvider
from tests.support.provider_releases import config_map, publish, whole
from tests.support.provider_world import PHASES, Providers, is_ready
from tests.support.until import until


def late(core: FakeProvider, step: str) -> Event:
    return phases.completion_event(step, core.object, resync=False)


@pytest.mark.parametrize("step", [phases.CHECKED, phases.FETCHED, phases.INSTALLED])
def test_late_events_do_not_bypass_the_checks(core: FakeProvider, providers: Providers, step: str) -> None:
    core.publish("v1.1.0")
    core.publish("v1.2.0")
    core.install("v1.2.0")
    core.apply("v1.1.0")
    for _ in range(2):  # before the checks, and after them
        providers.send(late(core, step))
        assert core.value == "v1.2.0"
        core.reconcile()
    assert core.condition_of("PreflightCheckPassed")[0] == "False"


def test_deleted_workload_does_not_bypass_the_checks(core: FakeProvider, providers: Providers) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version, whole("made-up", version))
    core.install("v1.2.0")
    core.apply("v1.1.0")
    core.reconcile()
    deployment = providers.client.get(DEPLOYMENT, MANAGER)
    providers.client.delete(DEPLOYMENT, MANAGER)
    providers.send_change(deployment, DEPLOYMENT, "delete")
    assert core.installed == "v1.2.0"
    assert core.value_of("made-up-settings") == "v1.2.0"


@pytest.mark.parametrize("through", [["provider_install"], PHASES], ids=["lost", "followed"])
def test_late_events_install_nothing_from_a_former_source(
    core: FakeProvider, providers: Providers, through: Sequence[str]
) -> None:
    """The version of the new source is checked but not fetched yet."""
    for repository, content in (("org/one", "1"), ("org/two", "2")):
        publish(core.folder, "v1.1.0", [config_map("cluster-api", content)], repository=repository)
        core.apply("v1.1.0", fetchConfig={"url": providers.url(CORE.file, repository=repository)})
        if content == "2":
            providers.send_to(["provider_preflight"], *core.key)
            providers.send(late(core, phases.FETCHED), through)
        core.until_ready()
        assert core.value == content


def replies(core: FakeProvider, providers: Providers) -> Iterator[tuple[str, Event]]:
    """Yields each phase but the first, with the event that asks for it; the phase has run when the next is yielded."""
    reply = providers.send_to(["provider_preflight"], *core.key).reply
    for phase in ("provider_fetch", "provider_install", "provider_report"):
        assert reply is not None
        yield phase, reply
        reply = providers.send(reply, [phase]).reply


def test_phases_of_one_process_do_not_read_what_the_phase_before_has_written(
    core: FakeProvider, providers: Providers
) -> None:
    core.publish("v1.1.0")
    core.apply("v1.1.0")
    sent = [providers.requests for _ in replies(core, providers)]
    assert providers.requests - sent[-1] == 1, "provider_report sends its status only"
    assert sent[1] - sent[0] == 1, "so does provider_fetch"


def respecify(core: FakeProvider) -> None:
    core.apply("v1.2.0")


def pause(core: FakeProvider) -> None:
    core.apply("v1.1.0", {PAUSED_ANNOTATION: ""})


def replace(core: FakeProvider) -> None:
    client = core.providers.client
    client.patch(CORE.resource, core.at, {"metadata": {"finalizers": None}})
    client.delete(CORE.resource, core.at)
    core.apply("v1.1.0")


@pytest.mark.parametrize("phase", ["provider_fetch", "provider_install"])
@pytest.mark.parametrize("change", [respecify, pause, replace])
def test_phase_writes_nothing_about_a_provider_that_was_changed_since_the_phase_before(
    core: FakeProvider, providers: Providers, change: Callable[[FakeProvider], None], phase: str
) -> None:
    for version in ("v1.1.0", "v1.2.0"):
        core.publish(version)
    core.apply("v1.1.0")
    reply = next(reply for name, reply in replies(core, providers) if name == phase)
    change(core)
    before = providers.versions()
    providers.send(reply, [phase])
    assert providers.versions() == before


def test_report_is_about_the_present_generation(core: FakeProvider, providers: Providers) -> None:
    """The spec changes between the installation and the report on it."""
    core.publish("v1.1.0")
    core.apply("v1.1.0")
    reply = next(reply for name, reply in replies(core, providers) if name == "provider_report")
    respecify(core)
    providers.send(reply, ["provider_report"])
    reported = providers.condition(core.object, "ComponentsAvailable")
    assert reported["observedGeneration"] == core.object["metadata"]["generation"]


@pytest.mark.parametrize("seed", range(2))
def test_lost_doubled_and_shuffled_events_converge(core: FakeProvider, providers: Providers, seed: int) -> None:
    """Events of an older version are among them."""
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
        core.apply(version)
        until(step, f"{version} ready")
    while pool:
        deliver_one()
    provider = core.until_ready()
    assert dig(provider, "status.installedVersion") == core.value_of("made-up-settings") == versions[-1]
    assert providers.brought() == providers.listed(*core.key)
