"""ClusterStacks driven by events only, and with the functions killed after each write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from threading import Lock

import pytest

from events.forwarder import Forwarder
from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.clients import Clients
from shared.event import PING, Event
from shared.kube import Key, connect, dig
from tests.support.api_proxy import Fault, Proxy, Request, cut_after, cut_before
from tests.support.event_receiver import EventReceiver
from tests.support.kill_points import one_of_each_kind
from tests.support.releases import STACK
from tests.support.stacks import CLASS, TEMPLATE, TOY, TOY_TEMPLATE, Stacks

NAMES = ("cluster_stack", "cluster_stack_release", "release_assets")


@pytest.fixture
def forwarded(stacks: Stacks) -> Iterator[Stacks]:
    """The forwarder calls the functions; the test only acts as a user."""
    triggers = {name: declared for name, declared in catalog.triggers().items() if name in NAMES}
    forwarder = Forwarder(
        stacks.client,
        triggers,
        lambda name, event: catalog.handler(name)(stacks.clients, event),
        namespace=stacks.namespace,
    )
    forwarder.start()
    try:
        yield stacks
    finally:
        forwarder.stop()


def test_stack_lifecycle_driven_by_events(forwarded: Stacks, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = forwarded
    monkeypatch.setenv("RELEASE_POLL_SECONDS", "0.3")

    def usable(versions: str) -> Callable[[], bool]:
        return lambda: dig(stacks.find(CLUSTER_STACK, "stack"), "status.usableVersions") == versions

    stacks.publish("v1")
    stacks.stack()
    stacks.until(usable("v1"), "the first release")
    stacks.cluster(f"{STACK}-v1")
    stacks.publish("v2")
    stacks.until(usable("v1, v2"), "the second release, found by asking again")
    stacks.until(lambda: stacks.names(CLASS) == [f"{STACK}-v1", f"{STACK}-v2"], "both classes")
    stacks.cluster(f"{STACK}-v2")
    stacks.until(lambda: stacks.names(CLASS) == [f"{STACK}-v2"], "the first class to go, for its Cluster has moved")
    monkeypatch.setenv("RELEASE_POLL_SECONDS", "3600")
    stacks.delete(CLUSTER_STACK, "stack")
    stacks.until(
        lambda: "ClusterClassInUse" in str(dig(stacks.find(CLUSTER_STACK_RELEASE, f"{STACK}-v2"), "status")),
        "the refusal",
    )
    stacks.delete(CLUSTER, "demo")
    stacks.until(lambda: stacks.find(CLUSTER_STACK, "stack") is None, "the end")
    assert (stacks.names(CLUSTER_STACK_RELEASE), stacks.names(CLASS), stacks.names(TEMPLATE)) == ([], [], [])


class Fuse:
    """Breaks all connections after so many writes (None: never)."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = Lock()
        self.writes: list[Request] = []

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            dead = self._limit is not None and len(self.writes) >= self._limit
            if request.writes and not dead:
                self.writes.append(request)
            last = len(self.writes) == self._limit and request.writes and not dead
        if last:
            return cut_after
        return cut_before if dead else None


def _stable(stacks: Stacks) -> list[object]:
    """Returns the objects without the fields that differ in each run, such as uids and times."""
    found: list[object] = []
    for resource in (CLUSTER_STACK, CLUSTER_STACK_RELEASE, CLASS, TEMPLATE, TOY):
        for obj in stacks.client.list(resource, stacks.namespace):
            conditions = {c["type"]: (c["status"], c.get("reason")) for c in dig(obj, "status.conditions", [])}
            entries = [
                entry | {"uid": "", "revision": "", "namespace": ""} for entry in dig(obj, "status.resources", [])
            ]
            owners = [owner["name"] for owner in obj["metadata"].get("ownerReferences", [])]
            name, spec = obj["metadata"]["name"], {**obj.get("spec", {}), "providerRef": None}
            found.append((obj["kind"], name, owners, spec, conditions, entries, dig(obj, "status.ready")))
    return found


@pytest.mark.parametrize("journey", ["arriving", "given up", "leaving"])
def test_lifecycle_completes_after_a_kill_at_any_write(
    stacks: Stacks, proxy: Proxy, journey: str, seed: int, exhaustive: bool
) -> None:
    """In each journey the final objects are the same after any kill, without leftovers: the first release is provided
    (arriving), becomes obsolete while the functions are down (given up), or is deleted with its stack (leaving).

    An exhaustive run kills at every write, another one at a write of each kind.
    """
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": {"spec": {"images": ["a"]}}})
    toys = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}
    stacks.publish("v1")
    direct, through = stacks.clients, connect.workload(proxy.kubeconfig)

    def proceed() -> None:
        """The functions, then the provider, then the functions."""
        stacks.settle()
        waiting = [toy for toy in stacks.client.list(TOY, stacks.namespace) if not dig(toy, "status.ready")]
        for toy in waiting:
            key = Key(stacks.namespace, toy["metadata"]["name"])
            stacks.client.patch(TOY, key, {"status": {"ready": True}}, subresource="status")
        if waiting:
            proceed()

    def finish() -> None:
        stacks.clients = direct
        proceed()

    def once(limit: int | None) -> tuple[list[Request], list[object]]:
        stacks.stack(noProvider=False, providerRef=toys)
        if journey == "leaving":
            finish()
            stacks.delete(CLUSTER_STACK, "stack")
        proxy.fault = fuse = Fuse(limit)
        stacks.clients = Clients(through)
        proceed()
        proxy.heal()
        if journey == "arriving":
            finish()
        end = _stable(stacks) if journey == "arriving" else []
        if journey != "leaving":
            stacks.delete(CLUSTER_STACK, "stack")
        finish()
        assert [stacks.names(resource) for resource in (CLUSTER_STACK, CLASS, TEMPLATE, TOY)] == [[], [], [], []]
        return fuse.writes, end

    writes, expected = once(None)
    assert len(writes) > 5
    for limit in range(len(writes)) if exhaustive else one_of_each_kind(writes, Random(seed)):
        assert once(limit)[1] == expected, f"killed after write {limit} of {len(writes)}"


def test_provider_object_is_written_only_if_its_template_changes_it(stacks: Stacks, proxy: Proxy) -> None:
    content = {"metadata": {"labels": {"from": "template"}}, "spec": {"images": ["a"]}}
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": content})
    tag = stacks.publish("v1")
    toys = {"apiVersion": TOY_TEMPLATE.api_version, "kind": TOY_TEMPLATE.kind, "name": "toys"}
    stacks.stack(noProvider=False, providerRef=toys)
    stacks.settle()
    stacks.clients = Clients(connect.workload(proxy.kubeconfig))
    stacks.look_at_stack()
    assert proxy.writes() == []
    stacks.apply(TOY_TEMPLATE, "toys", spec={"template": {"spec": {"images": ["a"]}}})
    stacks.look_at_stack()
    assert "labels" not in stacks.get(TOY, tag)["metadata"]


def _swept(stacks: Stacks, monkeypatch: pytest.MonkeyPatch, **data: object) -> set[tuple[str, str, bool]]:
    """Returns what a sweep sends: kind, name and whether the event is a resync."""
    with EventReceiver() as receiver:
        monkeypatch.setenv("K_SINK", receiver.url)
        assert stacks.call("sweep", Event(type=PING, source="/test", id="1", data=data)).status == 204
        events = [event for _, event, _ in receiver.received if event.namespace == stacks.namespace]
    assert all(event.type == "dev.knative.apiserver.ref.update" for event in events)
    return {(event.kind, event.name, event.resync) for event in events}


def test_sweep_sends_stacks_and_releases(stacks: Stacks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events may get lost. Stacks are also sent when they are reconciled, so that sources are listed again."""
    tag = stacks.publish("v1")
    stacks.stack()
    stack = ("ClusterStack", "stack", False)
    assert _swept(stacks, monkeypatch) == {stack}
    stacks.look_at_stack()
    assert _swept(stacks, monkeypatch) == {stack, ("ClusterStackRelease", tag, False)}
    stacks.settle()
    assert _swept(stacks, monkeypatch) == set()
    assert _swept(stacks, monkeypatch, kind="ClusterStack") == {stack}
    assert _swept(stacks, monkeypatch, everything=True) == {
        ("ClusterStack", "stack", True),
        ("ClusterStackRelease", tag, True),
    }
    stacks.cluster(tag)
    stacks.delete(CLUSTER_STACK_RELEASE, tag)
    assert ("ClusterStackRelease", tag, False) in _swept(stacks, monkeypatch)
