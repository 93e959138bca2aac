"""The functions are killed before and after the writes of a provider's life, one at a time: the end is always the same.

A made-up provider is installed, upgraded and deleted once to count the writes, to the cluster and the object store;
then once for each place to be killed at. By turns, the same goes on to be wanted, another release is, or the provider
is deleted while the functions are away. `KILL_AT_EVERY_WRITE` goes through every place in every way.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from events.delivery import HttpDelivery
from infra import local_control_plane
from infra.local.functions_server import FunctionsServer
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.api.resources import CONFIG_MAP, SECRET
from shared.event import Event
from shared.kube import Key, Object, dig
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.e2e.test_kill_between_writes import Fuse
from tests.support.api_proxy import Proxy, Request, api_server, object_store_server
from tests.support.provider_releases import CLUSTER_ROLE_BINDING, config_map, publish, whole, widget
from tests.support.provider_world import Providers, is_ready
from tests.support.until import until

LANES = 2
VERSIONS = ("v1.1.0", "v1.1.1", "v1.1.2")
WAYS = ("", "another release", "deletion")


@dataclass(frozen=True)
class Place:
    """Where to kill, and what the user wants by the time that the functions are back; the same if it is empty."""

    number: int
    before: bool
    meanwhile: str = ""

    def __str__(self) -> str:
        return f"{'before' if self.before else 'after'} write {self.number}, then {self.meanwhile or 'nothing new'}"


class Journey:
    """The life of one provider, from nothing to two versions and back to nothing."""

    def __init__(self, providers: Providers, folder: Path, lane: Lane) -> None:
        self.name = f"p{uuid.uuid4().hex[:8]}"
        self.key = (INFRASTRUCTURE, self.name, f"{self.name}-system")
        self.resource, self.at = INFRASTRUCTURE.resource, Key(self.key[2], self.name)
        self.providers = replace(providers, deliver=self.deliver, answers=[])
        self.lane = lane
        self.version = ""
        self.place: Place | None = None
        for version in VERSIONS:
            # What the binding points to is another role in the second one: it has to be made anew.
            role = "other" if version == VERSIONS[1] else ""
            publish(folder, version, whole(self.name, version, role=role), INFRASTRUCTURE, f"org/{self.name}")

    def deliver(self, function: str, event: Event) -> Answer:
        answer = self.lane.http(function, event)
        fuse = self.lane.fuse
        if fuse.lit.is_set():
            assert fuse.blown.wait(10)
            fuse.lit.clear()
            self.while_down()
            self.lane.server.start()
        return answer

    def while_down(self) -> None:
        assert self.place is not None
        if self.providers.client.find(self.resource, self.at) is None:
            return
        if self.place.meanwhile == "another release":
            self.want(VERSIONS[2])
        if self.place.meanwhile == "deletion":
            self.remove(forced=True)

    def want(self, version: str) -> None:
        self.version = version
        url = self.providers.url(INFRASTRUCTURE.file, repository=f"org/{self.name}")
        self.providers.apply(*self.key, version=version, fetchConfig={"url": url})

    def remove(self, *, forced: bool = False) -> None:
        if forced:
            annotations = {"capi-functions.dev/force-delete": "true"}
            self.providers.client.patch(self.resource, self.at, {"metadata": {"annotations": annotations}})
        self.providers.client.delete(self.resource, self.at)

    def take(self, place: Place | None) -> list[Request]:
        """Returns the writes that it took."""
        self.place = place
        self.lane.fuse.set(place)  # type: ignore[arg-type]
        uid = ""
        for version in VERSIONS[:2]:
            if not self.is_there(version):
                break
            self.want(version)
            if not self.reached():
                break
            self.check()
            uid = self.users_object(uid)
        self.end()
        return self.lane.fuse.writes

    def is_there(self, version: str) -> bool:
        return version == VERSIONS[0] or self.providers.client.find(self.resource, self.at) is not None

    def reached(self) -> bool:
        """Ready, or False where it was deleted on the way."""

        def there() -> Object | None:
            found = self.providers.client.find(self.resource, self.at)
            return None if dig(found, "metadata.deletionTimestamp") else found

        def step() -> bool:
            self.providers.look(*self.key)
            found = there()
            return found is None or is_ready(found)

        until(step, f"{self.name} {self.version}", told=lambda: self.providers.answers[-3:])
        return there() is not None

    def users_object(self, uid: str) -> str:
        """Made once, and the same ever after."""
        client, resource, key = self.providers.client, widget(self.name), Key(self.key[2], "mine")
        if not uid:
            body = {"apiVersion": resource.api_version, "kind": "Widget", "metadata": key._asdict(), "size": 7}
            return str(client.apply(resource, body, manager="user")["metadata"]["uid"])
        found = client.get(resource, key)
        assert (found["metadata"]["uid"], found["size"]) == (uid, 7)
        return uid

    def check(self) -> None:
        """What is there is what the release has, as it has it; so says the inventory, and nothing else."""
        providers, version = self.providers, self.version
        provider = providers.get(*self.key)
        assert dig(provider, "status.installedVersion") == version
        names = [(entry["kind"], entry["name"]) for entry in dig(provider, "status.resources")]
        kinds = [name for name in names if name[0] not in ("Secret", "Provider")]
        wanted = whole(self.name, version, role="other" if version == VERSIONS[1] else "")
        objects = [obj for obj in wanted if not obj["apiVersion"].startswith("cert-manager.io")]
        assert sorted(kinds) == sorted((obj["kind"], obj["metadata"]["name"]) for obj in objects)
        assert len(names) == len(set(names)) == len(objects) + 2
        assert providers.brought(f"infrastructure-{self.name}") == providers.listed(*self.key)
        for name in (f"{self.name}-settings", f"{self.name}-of-{version}"):
            assert dig(providers.client.get(CONFIG_MAP, Key(self.key[2], name)), "data.value") == version
        binding = providers.client.get(CLUSTER_ROLE_BINDING, Key("", f"{self.name}-manager"))
        roles = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"]
        assert [dig(binding, "roleRef.name")] == roles

    def end(self) -> None:
        providers = self.providers
        if providers.client.find(self.resource, self.at) is not None:
            self.remove(forced=True)

        def gone() -> bool:
            providers.look(*self.key)
            return providers.client.find(self.resource, self.at) is None

        until(gone, f"the end of {self.name}", told=lambda: providers.answers[-3:])
        # What is in its namespace may be left to the garbage collector, where it was made before the provider had
        # anything else.
        secret = Key(self.key[2], f"{self.name}-webhook-cert")
        until(lambda: providers.client.find(SECRET, secret) is None, f"Secret {secret} gone")
        assert providers.brought(f"infrastructure-{self.name}") == {}


class Lane:
    """A server of functions for one journey after the other; all that it writes passes its fuse."""

    def __init__(self, server: FunctionsServer, fuse: Fuse) -> None:
        self.server, self.fuse = server, fuse
        self.http = HttpDelivery(server.url, timeout=(2.0, 60.0))


@pytest.fixture
def lanes(
    provider_plane: Path, object_store: ObjectStore, object_store_url: str, tmp_path: Path
) -> Iterator[list[Lane]]:
    with ExitStack() as stack:
        lanes = []
        for number in range(LANES):
            api = stack.enter_context(Proxy(api_server(local_control_plane.kubeconfig(provider_plane))))
            storage = stack.enter_context(Proxy(object_store_server(object_store_url)))
            folder = tmp_path / f"lane-{number}"
            folder.mkdir()
            (folder / "kubeconfig").write_bytes(api.kubeconfig)
            environment = {
                **os.environ,
                "KUBECONFIG": str(folder / "kubeconfig"),
                "S3_ENDPOINT_URL": storage.url,
                "CAPI_FUNCTIONS_BUCKET": f"{object_store.bucket}-lane-{number}",
            }
            server = FunctionsServer(environment, folder / "functions.log")
            stack.callback(server.close)
            fuse = Fuse(server)
            api.fault = storage.fault = fuse
            server.start()
            lanes.append(Lane(server, fuse))
            stack.callback(lanes[-1].http.close)
        yield lanes


def test_killed_between_any_two_writes(providers: Providers, lanes: list[Lane], tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    providers.releases.append(releases)
    publish(releases, VERSIONS[0], [config_map("core", "1")])
    config = {"url": providers.url(CORE.file)}
    providers.apply(CORE, "cluster-api", "made-up-system", version=VERSIONS[0], fetchConfig=config)
    providers.until_ready(CORE, "cluster-api", "made-up-system")

    def journey(lane: Lane, place: Place | None) -> list[Request]:
        return Journey(providers, releases, lane).take(place)

    writes = min((journey(lane, None) for lane in (*lanes, lanes[0])), key=len)
    todo: SimpleQueue[Place] = SimpleQueue()
    numbers = range(1, len(writes) + 1)
    every = [Place(n, before, way) for n in numbers for before in (True, False) for way in WAYS]
    # Before a write is nearly where after the last one was: one and the other by turns, and one way after the other.
    some = [Place(n, n % 4 == 1, way) for n, way in zip(numbers[::2], itertools.cycle(WAYS), strict=False)]
    for place in every if os.environ.get("KILL_AT_EVERY_WRITE") else some:
        todo.put(place)
    total = todo.qsize()

    def drive(lane: Lane) -> tuple[int, list[str]]:
        killed, failures = 0, list[str]()
        while not todo.empty() and len(failures) < 3:
            place = todo.get()
            try:
                journey(lane, place)
                killed += lane.fuse.blown.is_set()
            except AssertionError as error:
                failures.append(f"killed {place}, {writes[place.number - 1]}: {error}")
                lane.fuse.set(None)
                if lane.server.process is None:
                    lane.server.start()
        return killed, failures

    with ThreadPoolExecutor(len(lanes)) as pool:
        results = list(pool.map(drive, lanes))
    failures = [failure for _, failed in results for failure in failed]
    assert not failures, "\n\n".join(failures)
    # What is said while a Deployment comes up is written as often as it changes.
    assert sum(killed for killed, _ in results) > 0.9 * total
