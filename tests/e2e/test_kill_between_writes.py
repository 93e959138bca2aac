"""The functions are killed right before and right after every single write of a Cluster's life, one at a time: the
end is always the same, and nothing is left over.

The journey is taken once to count its writes (to the management cluster, the workload cluster and the object store),
then once for each place to be killed at. Right after a write is nearly where right before the next one is: with the
same release in mind both are gone through only where `KILL_AT_EVERY_WRITE` is set. Of releases in stages the usual run
takes the harder places only: right after a write, with another release wanted.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock

import pytest

from events.delivery import HttpDelivery
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, SECRET
from shared.applier.inventory import OWNED_LABEL
from shared.event import Event, change_event
from shared.kube import Client, Key, Object, Resource
from shared.kube.crds import CRD
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.conftest import NAMESPACE
from tests.support.addons import FUNCTIONS, Addons, owned
from tests.support.api_proxy import Cut, Exchange, Fault, Proxy, Request, api_server, object_store_server
from tests.support.releases import STACK, config_map, write_release, write_stages

SERVICE = Resource("", "v1", "Service", "services")
LANES = 2
STAGES = """
  AfterControlPlaneInitialized: &stages [{name: base}, {name: rest}]
  BeforeClusterUpgrade: *stages
"""


@dataclass(frozen=True)
class Place:
    """Where to kill: at the `number`-th write, before it reaches its server or after. With `change`, the user wants
    another release by the time the functions are back, so that nobody finishes what was begun.
    """

    number: int
    before: bool = False
    change: bool = False

    def __str__(self) -> str:
        change = ", then another release" if self.change else ""
        return f"{'before' if self.before else 'after'} write {self.number}{change}"


class Fuse:
    """Counts the writes of one server process's life, and kills it at the one that it is set to."""

    def __init__(self, server: FunctionsServer) -> None:
        self._server = server
        self._lock = Lock()
        self.set(None)

    def set(self, place: Place | None) -> None:
        self.place = place
        self.lit, self.blown = Flag(), Flag()
        self.writes: list[Request] = []

    def __call__(self, request: Request) -> Fault | None:
        if not request.writes:
            return None
        with self._lock:
            self.writes.append(request)
            number = len(self.writes)
        return self._kill if self.place is not None and number == self.place.number else None

    def _kill(self, exchange: Exchange) -> None:
        if self.place is not None and not self.place.before:
            exchange.forward()
        self.lit.set()
        self._server.kill()
        self.blown.set()
        raise Cut


class Lane:
    """A server of functions for one journey after the other; all that it writes passes its fuse."""

    def __init__(self, server: FunctionsServer, fuse: Fuse, client: Client, kubeconfig: bytes, releases: Path) -> None:
        self.server, self.fuse = server, fuse
        self._client, self._kubeconfig, self._releases = client, kubeconfig, releases
        self._http = HttpDelivery(server.url, timeout=(2.0, 30.0))
        self._version = 0
        self.in_stages = False
        self._while_down: Callable[[], None] = lambda: None

    def deliver(self, name: str, event: Event) -> Answer:
        answer = self._http(name, event)
        if self.fuse.lit.is_set():
            assert self.fuse.blown.wait(10)
            self.fuse.lit.clear()
            self._while_down()
            self.server.start()
        return answer

    @property
    def newest(self) -> str:
        return f"{STACK}-v{self._version}"

    def release(self, objects: list[Object]) -> str:
        self._version += 1
        if not self.in_stages:
            return write_release(self._releases, f"v{self._version}", objects)
        crds = [obj for obj in objects if obj["kind"] == CRD.kind]
        others = [obj for obj in objects if obj["kind"] != CRD.kind]
        charts = {"base": [*crds, *others[::2]], "rest": others[1::2]}
        return write_stages(self._releases, f"v{self._version}", STAGES, charts)

    def journey(self, place: Place | None) -> list[Request]:
        """From nothing to v1, to v2, and back to nothing. Returns the writes that it took."""
        self.fuse.set(place)
        namespace = f"kill-{uuid.uuid4().hex[:8]}"
        self._client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        addons = Addons(self._client, self.deliver, namespace, self._kubeconfig)
        wanted: list[Object] = []

        def want(objects: list[Object]) -> None:
            wanted[:] = objects
            addons.want(self.release(objects))

        def change() -> None:
            if place is not None and place.change and wanted:
                want(second(namespace) if wanted == first(namespace) else first(namespace))

        self._while_down = change
        for objects in (first(namespace), second(namespace)):
            want(objects)
            addons.until(lambda: addons.ready(self.newest), "Ready")
            check(addons, wanted)
        wanted.clear()
        cluster = self._client.get(CLUSTER, addons.cluster_key)
        addons.remove()
        addons.until(addons.gone, "the end of the addon")
        for name in FUNCTIONS:  # late, and about something that is no more
            addons.send(name, change_event(cluster, "update", source="/test"))
        assert list(self._client.list(CLUSTER_ADDON, namespace)) == []
        assert orphans(self._client, namespace) == []
        assert place is None or self.fuse.blown.is_set(), f"there was no write {place.number}"
        self._client.delete(CRD, Key("", f"widgets.{namespace}.example.com"))
        return self.fuse.writes


# -- what is applied -------------------------------------------------------------------------------------------


def widgets(namespace: str) -> Resource:
    return Resource(f"{namespace}.example.com", "v1", "Widget", "widgets")


def first(namespace: str) -> list[Object]:
    maps = [config_map(name, namespace=namespace) for name in ("kept", "changed", "dropped")]
    return [*maps, *common(namespace, "1"), widget(namespace, "old"), service(namespace, "kept")]


def second(namespace: str) -> list[Object]:
    """Objects that stay, change, come and go, and one that goes whose name another kind keeps."""
    maps = [config_map("kept", namespace=namespace), *(config_map(n, "2", namespace) for n in ("changed", "added"))]
    return [*maps, *common(namespace, "2"), widget(namespace, "new")]


def common(namespace: str, value: str) -> list[Object]:
    group = widgets(namespace).group
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-own"}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "secret", "namespace": f"{namespace}-own"},
            "stringData": {"k": value},
        },
        {
            "apiVersion": CRD.api_version,
            "kind": CRD.kind,
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    ]


def widget(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": widgets(namespace).api_version, "kind": "Widget", "metadata": metadata}


def service(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def check(addons: Addons, objects: list[Object]) -> None:
    """What carries our label is what the release holds, as it holds it; so says the inventory, and nothing else."""
    client, namespace = addons.client, addons.namespace
    live = {
        (resource.kind, name): obj
        for resource in (CONFIG_MAP, SECRET, SERVICE, NAMESPACE, CRD, widgets(namespace))
        for where in ([namespace, f"{namespace}-own"] if resource.namespaced else [""])
        for name, obj in owned(client, resource, where).items()
        if namespace in (obj["metadata"].get("namespace") or name).replace("-own", "").split(".")
    }
    wanted = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert set(live) == set(wanted)
    for who, obj in wanted.items():
        assert live[who].get("data") == obj.get("data") or "stringData" in obj
    assert live["Secret", "secret"]["data"] == {
        "k": base64.b64encode(wanted["Secret", "secret"]["stringData"]["k"].encode()).decode()
    }
    inventory = addons.inventory()
    assert {who: entry.get("uid") for who, entry in inventory.items()} == {
        who: obj["metadata"]["uid"] for who, obj in live.items()
    }
    assert {entry["status"] for entry in inventory.values()} == {"synced"}


def orphans(client: Client, namespace: str) -> list[str]:
    """Secrets of ours in the management cluster that nobody would collect."""
    secrets = [
        obj for obj in client.list(SECRET, namespace) if OWNED_LABEL not in (obj["metadata"].get("labels") or {})
    ]
    names = [obj["metadata"]["name"] for obj in secrets if not obj["metadata"].get("ownerReferences")]
    return [name for name in names if name != "demo-kubeconfig"]


# -- the test --------------------------------------------------------------------------------------------------


@pytest.fixture
def lanes(
    management: Client,
    kubeconfig: Path,
    object_store: ObjectStore,
    object_store_url: str,
    tmp_path: Path,
) -> Iterator[list[Lane]]:
    with ExitStack() as stack:
        lanes = []
        for number in range(LANES):
            api = stack.enter_context(Proxy(api_server(kubeconfig)))
            storage = stack.enter_context(Proxy(object_store_server(object_store_url)))
            folder = tmp_path / f"lane-{number}"
            releases = folder / "releases"
            releases.mkdir(parents=True)
            (folder / "kubeconfig").write_bytes(api.kubeconfig)
            environment = {
                **os.environ,
                "KUBECONFIG": str(folder / "kubeconfig"),
                "RELEASE_SOURCE": str(releases),
                "S3_ENDPOINT_URL": storage.url,
                "CAPI_FUNCTIONS_BUCKET": f"{object_store.bucket}-lane-{number}",
            }
            server = FunctionsServer(environment, folder / "functions.log")
            stack.callback(server.close)
            fuse = Fuse(server)
            api.fault = storage.fault = fuse
            server.start()
            lanes.append(Lane(server, fuse, management, api.kubeconfig, releases))
        yield lanes


@pytest.mark.parametrize("in_stages", [False, True], ids=["umbrella chart", "stages"])
def test_killed_at_each_write(lanes: list[Lane], in_stages: bool) -> None:
    for lane in lanes:
        lane.in_stages = in_stages
    lanes[0].journey(None)  # the bucket is made once
    writes = lanes[0].journey(None)
    lanes[1].journey(None)
    todo: SimpleQueue[Place] = SimpleQueue()
    for number in range(1, len(writes) + 1):
        if not in_stages or os.environ.get("KILL_AT_EVERY_WRITE"):
            todo.put(Place(number, before=True))
        todo.put(Place(number, change=True))
        if os.environ.get("KILL_AT_EVERY_WRITE"):
            todo.put(Place(number))

    def drive(lane: Lane) -> list[str]:
        failures: list[str] = []
        while not todo.empty() and len(failures) < 3:
            place = todo.get()
            try:
                again = lane.journey(place)
                assert len(again) <= 2 * len(writes), f"{len(again)} writes, {len(writes)} without the kill"
            except AssertionError as error:
                failures.append(f"killed {place}, {writes[place.number - 1]}: {error}")
        return failures

    with ThreadPoolExecutor(len(lanes)) as pool:
        failures = [failure for failed in pool.map(drive, lanes) for failure in failed]
    assert not failures, "\n\n".join(failures)
