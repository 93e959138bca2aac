"""The functions that fetch, collect, keep and pass on are killed at their writes to storage and to a sink of events.

A release is fetched, another one only once its source has it; the one without a user is deleted. An event that no
function took becomes a dead letter. The sweep and `provider_wake` send events for all objects that they are about.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.api.provider import INFRASTRUCTURE
from shared.api.resources import CLUSTER, EVENT, NAMESPACE, SECRET
from shared.dead_letters import MOST, PREFIX, SLACK, DeadLetters
from shared.event import PING, DeliveryFailure, Event, change_event, own_event
from shared.kube import Client, Key
from shared.releases.store import BLOBS, ReleaseStore
from shared.storage import ObjectStore
from tests.support import objects
from tests.support.api_proxy import Request
from tests.support.event_receiver import EventReceiver
from tests.support.kill_points import KillableFunctions, KillPoint, check_kills, in_parts, killable_functions
from tests.support.releases import config_map, write_release
from tests.support.until import until

VARIANTS = ((True, ""), (False, ""))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_parts(metafunc, 4)


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventReceiver]:
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        monkeypatch.setenv("RELEASE_KEEP_HOURS", "0")
        yield receiver


class Journey:
    """What happens about one Cluster and two providers in a namespace of their own."""

    def __init__(
        self, functions: KillableFunctions, client: Client, objects_: ObjectStore, receiver: EventReceiver
    ) -> None:
        self.functions, self.client, self.objects, self.receiver = functions, client, objects_, receiver
        self.store = ReleaseStore(objects_)
        self.name = f"k{uuid.uuid4().hex[:8]}"
        self.namespace = f"kill-{self.name}"

    def take(self, point: KillPoint | None) -> list[Request]:
        """Takes the journey, and returns its writes; the functions are killed at `point`."""
        self.functions.restart()  # a process collects releases once in 30 s, and looks for old letters at its first one
        self.functions.kill_at(point)
        self.client.create(NAMESPACE, objects.manifest(NAMESPACE, self.namespace))
        self.fetch_releases()
        self.collect_releases()
        self.keep_letters()
        self.pass_on()
        self.client.delete(CLUSTER, Key(self.namespace, "demo"))
        for name in ("one", "two"):
            self.client.delete(INFRASTRUCTURE.resource, Key(self.namespace, name))
        return self.functions.end()

    def fetch_releases(self) -> None:
        for version, is_there in (("v1", True), ("v2", False), ("v2", True)):
            spec = {"topology": {"classRef": {"name": self.tag(version)}}}
            cluster = objects.manifest(CLUSTER, "demo", self.namespace, spec=spec)
            cluster = self.client.apply(CLUSTER, cluster, manager="user")
            if is_there:
                content = [config_map("a", version)]
                write_release(self.functions.releases, version, content, stack=self.tag("")[:-1])
            data = {"release": self.tag(version), "namespace": self.namespace}
            wanted = own_event("release.wanted", source="/test", subject="x", about=cluster, data=data)
            self.deliver("release_assets", wanted)
            assert (self.store.load(self.tag(version)) is not None) is is_there
            assert (self.store.last_failure(self.tag(version)) is None) is is_there

    def collect_releases(self) -> None:
        self.deliver("release_prune", Event(type=PING, source="/test", id="1", data={"everything": True}))
        release = self.store.load(self.tag("v2"))
        assert release is not None
        kept = {f"{BLOBS}{blob.digest}" for blob in release.files.values()} | {f"releases/{self.tag('v2')}.json"}
        found = {key for key in self.objects.list() if not key.startswith(("pins/", PREFIX))}
        assert found == kept
        assert all(self.store.read(release, file) for file in release.files)

    def keep_letters(self) -> None:
        cluster = self.client.get(CLUSTER, Key(self.namespace, "demo"))
        failure = DeliveryFailure("http://addon-apply.capi-functions.svc.cluster.local/", 500, "a bug\n")
        unhandled = replace(change_event(cluster, "update", source="/test"), failure=failure)
        before = set(self.objects.list(PREFIX))
        self.deliver("dead_letters", unhandled)
        [letter] = [one for one in DeadLetters(self.objects).list() if one.event.namespace == self.namespace]
        assert 1 <= letter.count <= 2, "an event whose answer is lost is delivered again, and counted again"
        letters = self.objects.list(PREFIX)
        assert len(letters) <= MOST + SLACK
        assert len(before - set(letters)) <= 1 + max(0, len(before) - MOST), "only the oldest make room"
        events = [one for one in self.client.list(EVENT, self.namespace) if one["reason"] == "EventNotHandled"]
        assert [one["involvedObject"]["uid"] for one in events] == [cluster["metadata"]["uid"]]

    def pass_on(self) -> None:
        """Every object has its event, whatever was delivered twice."""
        for name in ("one", "two"):
            spec = {"configSecret": {"name": "inputs", "namespace": self.namespace}}
            self.client.create(
                INFRASTRUCTURE.resource, objects.manifest(INFRASTRUCTURE.resource, name, self.namespace, spec=spec)
            )
        self.deliver("sweep", Event(type=PING, source="/test", id="1"))
        assert {"demo", "one", "two"} <= self.received("dev.knative.apiserver.ref.update")
        secret = self.client.create(SECRET, objects.secret("inputs", self.namespace, token="t"))
        self.deliver(
            "provider_wake", change_event({**secret, "kind": SECRET.kind}, "update", source="/test", reference=True)
        )
        assert self.received("dev.capi-functions.provider.changed") == {"one", "two"}

    def received(self, type_: str) -> set[str]:
        events = [event for _, event, _ in self.receiver.received]
        return {event.name for event in events if (event.type, event.namespace) == (type_, self.namespace)}

    def deliver(self, function: str, event: Event) -> None:
        """Delivers the event until the function takes it, as a broker does."""
        answers = []

        def taken() -> bool:
            answers.append(self.functions.deliver(function, event))
            return answers[-1].status < 300

        until(taken, f"{function} takes the event", pause=0.1, details=lambda: answers[-1])

    def tag(self, version: str) -> str:
        return f"test-{self.name}-1-36-{version}"


@pytest.mark.timeout(3600)
def test_tasks_end_the_same_when_functions_are_killed_at_a_write(
    sink: EventReceiver,
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    part: tuple[int, int],
) -> None:
    for number in range(MOST):
        object_store.put(f"{PREFIX}{number:012x}.json", b"{}", if_absent=False)
    with killable_functions(kubeconfig, object_store, object_store_url, tmp_path) as functions:

        def take(point: KillPoint | None) -> list[Request]:
            return Journey(functions, management, object_store, sink).take(point)

        check_kills(take, VARIANTS, pytestconfig, part, most=6)
