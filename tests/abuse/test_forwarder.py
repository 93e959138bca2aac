"""Floods, hostile objects, dead connections and rivals of the forwarder: nothing is lost, and memory is bounded."""

from __future__ import annotations

import logging
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from prometheus_client import REGISTRY

from events.delivery import InProcessDelivery
from events.dispatcher import Dispatcher
from events.forwarder import Forwarder
from events.ingress import Ingress
from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client, Key, Object, Resource, connect, dig, key_of
from shared.runtime.answer import Answer
from shared.triggers import Triggers, Watch
from tests.support.api_proxy import Proxy, Request, hanging, stalling
from tests.support.forwarders import Deliveries, addon, cluster, forwarder_process, holder_of
from tests.support.releases import config_map
from tests.support.until import HANGS, logged, until

WIDGET = Resource("example.dev", "v1", "Widget", "widgets")
HTTP = urllib3.PoolManager(retries=False)


def widget(name: str, content: Object | None = None) -> Object:
    metadata = {"namespace": "n", "name": name, "resourceVersion": "1", "uid": name}
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata, "spec": content or {}}


@contextmanager
def blocked(triggers: Mapping[str, Triggers], **options: Any) -> Iterator[tuple[Dispatcher, Callable[[], list[str]]]]:
    """Yields a dispatcher whose functions do not answer, and a function that lets them answer and returns the calls."""
    answers = threading.Event()
    calls: list[str] = []

    def deliver(function: str, event: Any) -> Answer:
        answers.wait()
        calls.append(f"{function} {event.name}")
        return Answer(204)

    def finish() -> list[str]:
        answers.set()
        assert dispatcher.drain(HANGS)
        return calls

    dispatcher = Dispatcher(triggers, deliver, rate=1e6, **options)
    try:
        yield dispatcher, finish
    finally:
        answers.set()
        dispatcher.stop()


def test_flood_of_large_objects_takes_bounded_memory_and_loses_no_event() -> None:
    """A tenant writes many large objects while the functions are down."""
    triggers = {name: Triggers(name, (Watch(WIDGET),)) for name in ("f", "g")}
    limit, count = 4 << 20, 600
    tracemalloc.start()
    try:
        with blocked(triggers, limit=limit) as (dispatcher, finish):
            before, _ = tracemalloc.get_traced_memory()
            for number in range(count):
                content = {str(key): {"a": [number, key]} for key in range(500)}  # about 200 KB of memory
                dispatcher.submit(change_event(widget(f"w{number}", content), "add", source="test"))
            taken = tracemalloc.get_traced_memory()[0] - before
            calls = finish()
    finally:
        tracemalloc.stop()
    assert taken < 2 * limit + count * 2 * 4096, f"{taken >> 20} MiB"
    assert sorted(calls) == sorted(f"{name} w{number}" for name in triggers for number in range(count))


def test_flood_at_the_ingress_is_refused_once_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches the ingress posts references to objects that do not exist, each with another name."""
    monkeypatch.setattr("events.dispatcher._MAX_ITEMS", 100)
    with blocked({"f": Triggers("f", (Watch(WIDGET),))}) as (dispatcher, finish):
        ingress = Ingress(dispatcher.receive)
        ingress.start()
        try:
            statuses = []
            for number in range(150):
                headers, body = change_event(widget(f"w{number}"), "update", source="test", reference=True).to_http()
                statuses.append(HTTP.request("POST", ingress.url, headers=headers, body=body, timeout=HANGS).status)
        finally:
            ingress.stop()
        assert statuses == [202] * 100 + [503] * 50
        assert len(finish()) == 100


def fails_on_hostile(obj: Mapping[str, Any]) -> Key:
    if dig(obj, "data.hostile"):
        raise ValueError("a mapping that did not expect this object")
    return key_of(obj)


def failures(function: str) -> float:
    return REGISTRY.get_sample_value("capi_functions_object_failures_total", {"function": function}) or 0.0


def test_object_that_breaks_mappings_is_logged_once_and_holds_up_no_other(
    management: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenant's object raises in the mapping of one function and in the digest of another."""
    mapped = Triggers("mapped", (Watch(CONFIG_MAP, key=fails_on_hostile, fields=("data",)),))
    digested = Triggers("digested", (Watch(CONFIG_MAP, digest=lambda obj: str(fails_on_hostile(obj)) + str(obj)),))
    management.create(CONFIG_MAP, config_map("a-hostile", "x", namespace=namespace) | {"data": {"hostile": "1"}})
    management.create(CONFIG_MAP, config_map("good", "x", namespace=namespace))
    delivered: list[tuple[str, str, str]] = []

    def deliver(function: str, event: Any) -> Answer:
        delivered.append((function, event.name, str(dig(event.object, "data.k"))))
        return Answer(204)

    before = failures("mapped")
    forwarder = Forwarder(management, {"mapped": mapped, "digested": digested}, deliver, namespace=namespace)
    forwarder.start()
    try:
        assert forwarder.wait_synced(HANGS)
        for number in range(3):
            for name in ("a-hostile", "good"):
                management.patch(CONFIG_MAP, Key(namespace, name), {"data": {"k": f"v{number}"}})
            until(lambda value=f"v{number}": ("mapped", "good", value) in delivered)  # type: ignore[misc]
            until(lambda value=f"v{number}": ("digested", "a-hostile", value) in delivered)  # type: ignore[misc]
    finally:
        forwarder.stop()
    assert ("mapped", "a-hostile") not in [(function, name) for function, name, _ in delivered]
    assert failures("mapped") > before + 1
    for function in ("mapped", "digested"):
        logs = [record for record in caplog.records if record.levelno >= logging.ERROR and function in str(record.args)]
        assert len(logs) == 1, [record.getMessage() for record in logs]


def test_watch_that_ends_each_second_loses_nothing_and_lists_nothing_again(
    management: Client, namespace: str, proxy: Proxy, tmp_path: Path
) -> None:
    """A load balancer in front of the API server cuts each connection after a second."""

    def cut(exchange: Any) -> None:
        opened = time.monotonic()

        def end() -> None:
            with suppress(OSError):
                exchange._handler.connection.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(1.0, end)
        timer.start()
        try:
            exchange.stream(lambda: time.monotonic() - opened > 1.0)
        finally:
            timer.cancel()

    proxy.fail(cut, lambda request: request.watches)
    delivered: list[str] = []
    through_proxy = tmp_path / "kubeconfig"
    through_proxy.write_bytes(proxy.kubeconfig)
    client = connect.from_kubeconfig(str(through_proxy))
    triggers = {"f": Triggers("f", (Watch(CONFIG_MAP, selector="test=yes"),))}

    def deliver(_function: str, event: Any) -> Answer:
        delivered.append(event.name)
        return Answer(204)

    forwarder = Forwarder(client, triggers, deliver, namespace=namespace)

    def requests(*, watches: bool) -> list[Request]:
        return [request for request in proxy.seen if request.watches == watches and "configmaps" in request.path]

    began = time.monotonic()
    forwarder.start()
    try:
        assert forwarder.wait_synced(HANGS)
        lists = len(requests(watches=False))
        for number in range(25):
            obj = config_map(f"c{number}", "x", namespace=namespace)
            obj["metadata"]["labels"] = {"test": "yes"}
            management.create(CONFIG_MAP, obj)
            time.sleep(0.2)
        until(lambda: {f"c{number}" for number in range(25)} <= set(delivered))
        seconds = time.monotonic() - began
    finally:
        forwarder.stop()
        client.close()
    watches = len(requests(watches=True))
    assert watches > 3, "each watch ended after a second"
    assert watches <= 2 * seconds + 2, "no watch is opened again without a pause"
    assert len(requests(watches=False)) == lists, "a watch that ends goes on where it was"


def test_two_forwarders_that_both_deliver_create_one_addon_and_lose_no_change(
    kubeconfig: Path, management: Client, namespace: str
) -> None:
    """A forwarder that was suspended goes on beside the one that took its Lease."""
    clients = Clients(connect.from_kubeconfig(str(kubeconfig)))
    triggers = {
        "addon_create": catalog.triggers()["addon_create"],
        "recorder": Triggers("recorder", (Watch(CLUSTER, fields=("metadata.generation",)),)),
    }
    answers: list[int] = []
    changed: list[tuple[str, str]] = []

    def deliver(function: str, event: Any) -> Answer:
        if function == "recorder":
            changed.append((event.name, str(dig(event.object, "spec.topology.classRef.name"))[-2:]))
            return Answer(204)
        answer = InProcessDelivery(catalog.handler, clients)(function, event)
        answers.append(answer.status)
        return answer

    forwarders = [Forwarder(management, triggers, deliver, namespace=namespace) for _ in range(2)]
    for forwarder in forwarders:
        forwarder.start()
    try:
        assert all(forwarder.wait_synced(HANGS) for forwarder in forwarders)
        names = [f"c{number}" for number in range(10)]
        for name in names:
            management.create(CLUSTER, cluster(namespace, name))
        until(lambda: len(list(management.list(CLUSTER_ADDON, namespace))) >= len(names))
        for name in names:
            topology = {"classRef": {"name": "docker-ferrol-1-27-v2"}}
            management.patch(CLUSTER, Key(namespace, name), {"spec": {"topology": topology}})
        until(lambda: all(changed.count((name, "v2")) >= 2 for name in names), "the last change, from each forwarder")
        assert all(forwarder.drain(HANGS, quiet=1.0) for forwarder in forwarders)
    finally:
        for forwarder in forwarders:
            forwarder.stop()
        clients.management.close()
    found = list(management.list(CLUSTER_ADDON, namespace))
    assert sorted(dig(one, "spec.clusterRef.name") for one in found) == sorted(names), "one for each Cluster"
    assert not [status for status in answers if status >= 500 and status != 503]


def test_forwarder_whose_watches_hang_hands_over_and_nothing_is_lost(
    management: Client, namespace: str, kubeconfig: Path, tmp_path: Path, proxy: Proxy
) -> None:
    """A dead connection brings no events, and requests about the Lease still pass."""
    hung, never = threading.Event(), threading.Event()

    def fault(request: Request) -> Any:
        if request.watches:
            return stalling(hung)
        return hanging(never) if hung.is_set() and "/leases/" not in request.path else None

    proxy.fault = fault
    through_proxy = tmp_path / "kubeconfig"
    through_proxy.write_bytes(proxy.kubeconfig)
    deliveries, logs = Deliveries(0.0), {name: tmp_path / name for name in "ab"}
    options = ("--watch-silence", "10", "--health-port", "0", "--health-host", "127.0.0.1")
    for name in ("c0", "c1"):
        management.create(CLUSTER, cluster(namespace, name))
        management.create(CLUSTER_ADDON, addon(namespace, name))

    def port(name: str) -> int:
        found = until(lambda: logs[name].read_text().partition("answering probes at port ")[2].partition("\n")[0])
        return int(found)

    def probe(name: str, path: str) -> tuple[int, str]:
        answer = HTTP.request("GET", f"http://127.0.0.1:{port(name)}{path}", timeout=HANGS)
        return answer.status, answer.data.decode()

    with (
        deliveries.receiver as receiver,
        forwarder_process(f"{receiver.url}/a", namespace, through_proxy, logs["a"], *options) as a,
    ):
        until(lambda: deliveries.of("a", "add", "c1"), details=logged(logs["a"]))
        until(lambda: probe("a", "/readyz")[0] == 200)
        assert 'capi_functions_forwarder_lease_held{shard="0/1"} 1.0' in probe("a", "/metrics")[1]
        with forwarder_process(f"{receiver.url}/b", namespace, kubeconfig, logs["b"], *options):
            until(lambda: probe("b", "/readyz")[0] == 200, details=logged(logs["b"]))
            assert 'capi_functions_forwarder_lease_held{shard="0/1"} 0.0' in probe("b", "/metrics")[1], "it stands by"
            hung.set()
            management.create(CLUSTER, cluster(namespace, "c2"))
            management.delete(CLUSTER_ADDON, Key(namespace, "cluster-addon-c1"))
            for what, reached in {
                "the new Cluster": lambda: deliveries.of("b", "add", "c2"),
                "the deleted addon": lambda: deliveries.deletion_of_addon("b", "c1"),
            }.items():
                until(reached, what, details=logged(logs["b"]))
            assert a.wait(HANGS) == 1
            assert probe("b", "/healthz") == (200, "ok\n")
            assert 'capi_functions_forwarder_lease_held{shard="0/1"} 1.0' in probe("b", "/metrics")[1]
    assert "gives up the Lease" in logs["a"].read_text()
    assert not deliveries.of("a", "add", "c2"), "the hung forwarder saw nothing"
    assert "gives up the Lease" not in logs["b"].read_text()
    assert holder_of(management, Key(namespace, "forwarder"))
