"""`capi-functions resync` on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.main import app
from shared.api.resources import CONFIG_MAP
from shared.event import REFERENCE
from shared.kube import Key
from shared.runtime import Answer
from tests.support.event_receiver import EventReceiver
from tests.support.releases import write_release
from tests.support.world import World


@pytest.fixture
def receiver() -> Iterator[EventReceiver]:
    with EventReceiver() as started:
        yield started


def resync(world: World, kubeconfig: Path, *arguments: str) -> Result:
    options = ["-n", world.namespace, "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(app, ["resync", *arguments, *options])


def test_objects_are_sent_as_resyncs_without_their_content(
    world: World, kubeconfig: Path, receiver: EventReceiver
) -> None:
    world.cluster()
    result = resync(world, kubeconfig, "clusters", "demo", "--to", receiver.url)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Cluster {world.namespace}/demo sent\n"
    [(_, event, _)] = receiver.received
    assert (event.type, event.resync, event.name, event.object) == (REFERENCE + "update", True, "demo", None)
    receiver.received.clear()
    assert resync(world, kubeconfig, "clusters", "--selector", "no=such", "--to", receiver.url).exit_code == 0
    assert receiver.received == []


def test_resynced_addon_repairs_deleted_objects(world: World, kubeconfig: Path, receiver: EventReceiver) -> None:
    world.cluster(write_release(world.releases, "v1", [world.map("a")]), policy={"drift": "repair"})
    world.secret()
    world.settle()
    world.client.delete(CONFIG_MAP, Key(world.namespace, "a"))
    receiver.respond = lambda _function, event: world.call("addon_apply", event)
    assert resync(world, kubeconfig, "addons", "--all", "--to", receiver.url).exit_code == 0
    assert world.names() == ["a"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("demo", "--all"), 2, "name objects, or give --selector or --all"),
        ((), 2, "name objects, or give --selector or --all"),
        (("demo",), 1, "no URL to send events to"),
        (("other", "--to", "http://127.0.0.1:9"), 1, "other does not exist in the namespace"),
    ],
)
def test_error_says_what_to_do(
    world: World, kubeconfig: Path, arguments: tuple[str, ...], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("K_SINK", raising=False)
    result = resync(world, kubeconfig, "clusters", *arguments)
    assert result.exit_code == code
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_refused_events_are_named(world: World, kubeconfig: Path, receiver: EventReceiver) -> None:
    receiver.respond = lambda _function, _event: Answer(401, "no token")
    world.cluster()
    result = resync(world, kubeconfig, "clusters", "--all", "--to", receiver.url)
    assert result.exit_code == 1
    assert f"Cluster {world.namespace}/demo: {receiver.url} answered 401" in result.stderr
    assert "1 of 1 objects are not sent" in result.stderr
