"""Several forwarders on a real kube-apiserver: one delivers while others stand by, or each has its namespaces."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from events.forwarder import Forwarder
from events.lease import LeaseHolder
from events.shard import Shard
from infra.forwarder.__main__ import main
from infra.generate.__main__ import PROJECT
from shared.api.resources import CLUSTER, CLUSTER_ADDON, CONFIG_MAP, LEASE, NAMESPACE
from shared.event import Event
from shared.kube import Client, Key, dig
from shared.runtime.answer import Answer
from shared.triggers import Triggers, Watch
from tests.support.accounts import kubeconfig_of
from tests.support.forwarders import SECONDS, Deliveries, addon, cluster, forwarder_process, holder_of
from tests.support.until import HANGS, logged, until


@contextmanager
def holding(
    client: Client, key: Key, **options: float
) -> Iterator[tuple[LeaseHolder, threading.Event, threading.Event]]:
    taken, lost = threading.Event(), threading.Event()
    holder = LeaseHolder(client, key, on_taken=taken.set, on_lost=lost.set, **options)
    holder.start()
    try:
        yield holder, taken, lost
    finally:
        holder.release()


def test_released_lease_goes_to_the_process_that_stands_by(management: Client, namespace: str) -> None:
    key = Key(namespace, "forwarder")
    with holding(management, key, duration=SECONDS) as (first, taken, _):
        assert taken.wait(HANGS)
        with holding(management, key, duration=SECONDS) as (second, taken_next, _):
            until(lambda: second._holder == first.identity)
            assert not taken_next.is_set()
            first.release()
            assert taken_next.wait(HANGS)
            assert holder_of(management, key) == second.identity
            assert dig(management.get(LEASE, key), "spec.leaseTransitions") == 1
    assert holder_of(management, key) == ""


def test_process_that_finds_its_lease_taken_gives_up(management: Client, namespace: str) -> None:
    key = Key(namespace, "forwarder")
    with holding(management, key, duration=SECONDS) as (_, taken, lost):
        assert taken.wait(HANGS)
        management.patch(LEASE, key, {"spec": {"holderIdentity": "other"}})
        assert lost.wait(HANGS)
    assert holder_of(management, key) == "other", "the Lease of another process is not released"


@pytest.mark.parametrize("arguments", [["--lease", "name"], ["--lease", "a/b/c"], ["--shard", "3/3"]])
def test_invalid_option_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--sink", "http://127.0.0.1:1", *arguments])
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0.0, 0.5], ids=["functions are fast", "functions are slow"])
def test_takeover_from_a_killed_forwarder_loses_no_change(
    management: Client, namespace: str, kubeconfig: Path, tmp_path: Path, seconds: float
) -> None:
    deliveries, logs = Deliveries(seconds), {name: tmp_path / name for name in "ab"}
    for name in ("c0", "c1", "c2", "c3"):
        management.create(CLUSTER, cluster(namespace, name))
        management.create(CLUSTER_ADDON, addon(namespace, name))
    classes = {"spec": {"topology": {"classRef": {"name": "docker-ferrol-1-27-v2"}}}}

    def has_class(event: Event) -> bool:
        return str(dig(event.object, "spec.topology.classRef.name")).endswith("v2")

    with (
        deliveries.receiver as receiver,
        forwarder_process(f"{receiver.url}/a", namespace, kubeconfig, logs["a"]) as a,
    ):
        until(lambda: deliveries.of("a", "add", "c3"), details=logged(logs["a"]))
        with forwarder_process(f"{receiver.url}/b", namespace, kubeconfig, logs["b"]) as b:
            until(lambda: "all kinds are listed" in logs["b"].read_text(), details=logged(logs["b"]))
            assert "standing by" in logs["b"].read_text(), "the Lease was read before the lists"
            deliveries.refuses_a = True
            management.patch(CLUSTER, Key(namespace, "c0"), classes)
            management.delete(CLUSTER_ADDON, Key(namespace, "cluster-addon-c1"))
            until(lambda: deliveries.of("a", "update", "c0") and deliveries.deletion_of_addon("a", "c1"))
            assert not [path for path, _, _ in receiver.received if path.startswith("b/")], "one forwarder delivers"
            a.kill()
            management.create(CLUSTER, cluster(namespace, "c4"))
            management.delete(CLUSTER_ADDON, Key(namespace, "cluster-addon-c2"))
            management.patch(CLUSTER, Key(namespace, "c3"), classes)
            for what, reached in {
                "c0 with its new class": lambda: any(map(has_class, deliveries.of("b", "add", "c0"))),
                "the deleted addon of c1": lambda: deliveries.deletion_of_addon("b", "c1"),
                "the deleted addon of c2": lambda: deliveries.deletion_of_addon("b", "c2"),
                "c3 with its new class": lambda: any(map(has_class, deliveries.of("b", "add", "c3"))),
                "c4": lambda: deliveries.of("b", "add", "c4"),
            }.items():
                until(reached, what, details=logged(logs["b"]))
            b.send_signal(signal.SIGTERM)
            assert b.wait(HANGS) == 0
    assert holder_of(management, Key(namespace, "forwarder")) == ""
    assert "Traceback" not in logs["b"].read_text()


def test_generated_rights_suffice(management: Client, kubeconfig: Path, tmp_path: Path) -> None:
    account, log = tmp_path / "kubeconfig", tmp_path / "log"
    kubeconfig_of(management, kubeconfig, PROJECT / "infra/manifests/forwarder/forwarder.yaml", account)
    with forwarder_process("http://127.0.0.1:1", "capi-functions", account, log):
        until(lambda: "all kinds are listed" in log.read_text(), details=logged(log))
        assert "took the Lease" in log.read_text()
        until(lambda: holder_of(management, Key("capi-functions", "forwarder")))
    assert not [line for line in log.read_text().splitlines() if "forbidden" in line.lower()]


def test_each_shard_delivers_for_its_namespaces(management: Client, namespace: str) -> None:
    triggers = {"f": Triggers("f", (Watch(CONFIG_MAP, selector=f"test={namespace}"),))}
    namespaces = [f"{namespace}-{number}" for number in range(6)]
    assert {Shard(0, 2).owns(name) for name in namespaces} == {True, False}
    delivered: list[tuple[int, str]] = []
    forwarders = [
        Forwarder(
            management,
            triggers,
            lambda _function, event, index=index: delivered.append((index, event.namespace)) or Answer(204),  # type: ignore[misc, func-returns-value]
            shard=Shard(index, 2),
        )
        for index in range(2)
    ]

    def create(name: str, where: str) -> None:
        metadata = {"namespace": where, "name": name, "labels": {"test": namespace}}
        management.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    for name in namespaces:
        management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        create("before", name)
    try:
        for forwarder in forwarders:
            forwarder.start()
            assert forwarder.wait_synced(60)
        for name in namespaces:
            create("after", name)
        until(lambda: len(delivered) >= 2 * len(namespaces))
        assert all(forwarder.drain(60) for forwarder in forwarders)
    finally:
        for forwarder in forwarders:
            forwarder.stop()
    expected = [(0 if Shard(0, 2).owns(name) else 1, name) for name in namespaces]
    assert sorted(delivered) == sorted(2 * expected)
