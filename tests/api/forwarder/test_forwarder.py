"""Watcher and forwarder on a real kube-apiserver, with ConfigMaps as the watched objects."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from events.capture import Capture
from events.delivery import HttpDelivery
from events.forwarder import Forwarder
from events.queue import Pending
from events.replay import apply_inputs, replay
from events.specs import informer_specs
from events.watcher import Watcher
from functions import catalog
from functions.sweep.triggers import TRIGGERS as SWEEP
from infra import local_control_plane
from shared.api.provider import IPAM
from shared.api.resources import (
    CLUSTER,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    CONFIG_MAP,
    HELM_RELEASE_PROXY,
    LEASE,
    SECRET,
)
from shared.event import Event, change_event
from shared.kube import ApiError, Client, Key, Object, Resource, connect, dig, key_of
from shared.kube.client import METADATA_LIST
from shared.kube.crds import CRD
from shared.runtime.answer import Answer
from shared.runtime.sink import emit
from shared.triggers import Triggers, Watch
from tests.support import objects, processes
from tests.support.event_receiver import EventReceiver
from tests.support.until import HANGS, until

NOT_SERVED = Resource("example.dev", "v1", "Widget", "widgets")
WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The definition of `NOT_SERVED`."""
WIDGET: Object = {"apiVersion": "example.dev/v1", "kind": "Widget"}
CONFIG = {"config": Triggers("config", (Watch(CONFIG_MAP),))}


def config_map(namespace: str, name: str, data: dict[str, str], **labels: str) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class ChangeRecorder:
    """The changes that a watcher reported."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, tuple[str, ...]]] = []

    def __call__(self, event: Event, functions: Collection[str]) -> None:
        if event.name != "kube-root-ca.crt":
            self.events.append((event, tuple(functions)))

    def changes(self) -> list[tuple[str, str]]:
        return [(str(event.change), event.name) for event, _ in self.events]

    def waits_for(self, change: str, name: str) -> None:
        until(lambda: (change, name) in self.changes())


@contextmanager
def watching(client: Client, triggers: dict[str, Triggers], sink: Any, **options: Any) -> Iterator[Watcher]:
    watcher = Watcher(client, triggers, sink, **options)
    watcher.start()
    try:
        assert watcher.wait_synced(60)
        yield watcher
    finally:
        watcher.stop()
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("watch-")]


@contextmanager
def forwarding(
    client: Client, deliver: Any, triggers: dict[str, Triggers] = CONFIG, **options: Any
) -> Iterator[Forwarder]:
    forwarder = Forwarder(client, triggers, deliver, **options)
    forwarder.start()
    try:
        assert forwarder.wait_synced(60)
        yield forwarder
    finally:
        forwarder.stop()


def test_watcher_reports_the_first_list_and_then_changes(management: Client, namespace: str) -> None:
    recorder = ChangeRecorder()
    management.create(CONFIG_MAP, config_map(namespace, "before", {"a": "1"}))
    with watching(management, CONFIG, recorder, namespace=namespace):
        assert recorder.changes() == [("add", "before")]
        management.create(CONFIG_MAP, config_map(namespace, "during", {"a": "1"}))
        management.apply(CONFIG_MAP, config_map(namespace, "during", {"a": "2"}), manager="test")
        management.delete(CONFIG_MAP, Key(namespace, "before"))
        recorder.waits_for("delete", "before")
        assert recorder.changes()[1:] == [("add", "during"), ("update", "during"), ("delete", "before")]


def test_resync_reports_every_object_as_an_update(management: Client, namespace: str) -> None:
    recorder = ChangeRecorder()
    management.create(CONFIG_MAP, config_map(namespace, "one", {"a": "1"}))
    with watching(management, CONFIG, recorder, namespace=namespace, resync=0.5):
        until(lambda: len(recorder.events) > 2)
    assert recorder.changes()[:3] == [("add", "one"), ("update", "one"), ("update", "one")]
    assert [event.resync for event, _ in recorder.events[:3]] == [False, True, True]
    resynced = recorder.events[1][0]
    assert resynced.object is not None
    assert resynced.object["data"] == {"a": "1"}


class Delivered:
    """Keeps the deliveries to each function, in order, and answers that all is done."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def __call__(self, function: str, event: Event) -> Answer:
        if event.name != "kube-root-ca.crt":
            self.events.append((function, event))
        return Answer(204)

    def names(self, function: str = "f") -> set[str]:
        return {event.name for name, event in self.events if name == function}


def owner(obj: Mapping[str, Any]) -> Key | None:
    name = dig(obj, "metadata.labels.owner")
    return Key(key_of(obj).namespace, name) if name else None


def has_done(primary: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the ConfigMap is done, with the value that the event's Lease reports."""
    holder = dig(event.object, "spec.holderIdentity", dig(primary, "data.holder"))
    return dig(primary, "data.done") == "yes" and holder == dig(primary, "data.holder")


JUDGED = {
    "f": Triggers(
        "f",
        (
            Watch(CONFIG_MAP),
            Watch(LEASE, key=owner, needs_primary=True),
            Watch(SECRET, reference=True, selector="!app"),
        ),
        is_reconciled=has_done,
    ),
    "g": Triggers("g", (Watch(CONFIG_MAP, changes=("update",)),)),
}


def lease(namespace: str, name: str, owner: str, holder: str) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": {"owner": owner}}
    spec = {"holderIdentity": holder}
    return {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}


def test_start_delivers_only_what_is_not_settled(management: Client, namespace: str) -> None:
    for name, data in (
        ("settled", {"done": "yes", "holder": "a"}),
        ("todo", {"done": "no"}),
        ("other", {"done": "yes"}),
    ):
        management.create(CONFIG_MAP, config_map(namespace, name, data))
    management.create(LEASE, lease(namespace, "same", "settled", "a"))
    management.create(LEASE, lease(namespace, "differs", "other", "b"))
    management.create(LEASE, lease(namespace, "orphan", "of-nobody", "a"))
    metadata = {"namespace": namespace, "name": "settled"}
    management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    delivered = Delivered()
    with forwarding(management, delivered, JUDGED, namespace=namespace) as forwarder:
        assert forwarder.drain(60)
        assert delivered.names() == {"todo", "differs"}
        assert delivered.names("g") == {"settled", "todo", "other"}, "it missed the updates before the start"
        management.patch(CONFIG_MAP, Key(namespace, "settled"), {"data": {"note": "x"}})
        until(lambda: "settled" in delivered.names())
        # A change of an object whose primary object is missing waits for that object.
        management.patch(LEASE, Key(namespace, "orphan"), {"spec": {"holderIdentity": "b"}})
        management.patch(LEASE, Key(namespace, "same"), {"spec": {"holderIdentity": "b"}})
        until(lambda: "same" in delivered.names())
        assert "orphan" not in delivered.names()
        management.create(CONFIG_MAP, config_map(namespace, "of-nobody", {"done": "yes", "holder": "a"}))
        until(lambda: "of-nobody" in delivered.names())


def test_settled_objects_are_looked_at_for_drift_one_by_one_after_a_resync(management: Client, namespace: str) -> None:
    management.create(CONFIG_MAP, config_map(namespace, "settled", {"done": "yes", "holder": "a"}))
    management.create(LEASE, lease(namespace, "same", "settled", "a"))
    delivered = Delivered()
    with forwarding(management, delivered, {"f": JUDGED["f"]}, namespace=namespace, resync=0.5):
        until(lambda: len(delivered.events) >= 2)
    events = [event for _, event in delivered.events]
    assert {(event.change, event.resync) for event in events} == {("update", True)}
    assert all(event.object is None for event in events), "the function reads the object afresh"


def test_restarted_watcher_reports_everything_again_and_then_changes(management: Client, namespace: str) -> None:
    recorder = ChangeRecorder()
    for name in ("one", "two"):
        management.create(CONFIG_MAP, config_map(namespace, name, {"a": "1"}))
    with watching(management, CONFIG, recorder, namespace=namespace) as watcher:
        recorder.events.clear()
        watcher.restart()
        until(lambda: len(recorder.events) == 2)
        assert sorted(recorder.changes()) == [("add", "one"), ("add", "two")]
        management.delete(CONFIG_MAP, Key(namespace, "two"))
        recorder.waits_for("delete", "two")
        assert len(recorder.events) == 3


def test_change_goes_to_functions_by_fields_selector_and_kind_of_change(management: Client, namespace: str) -> None:
    triggers = {
        "data": Triggers("data", (Watch(CONFIG_MAP, fields=("data",)),)),
        "labels": Triggers("labels", (Watch(CONFIG_MAP, fields=("metadata.labels",)),)),
        "gone": Triggers("gone", (Watch(CONFIG_MAP, changes=("delete",)),)),
        "chosen": Triggers("chosen", (Watch(CONFIG_MAP, selector="chosen=yes"),)),
        "reference": Triggers("reference", (Watch(CONFIG_MAP, reference=True, fields=("data",)),)),
    }
    assert len(informer_specs(triggers.values())) == 3
    recorder = ChangeRecorder()
    with watching(management, triggers, recorder, namespace=namespace):
        for data, labels in (({"a": "1"}, {}), ({"a": "2"}, {}), ({"a": "2"}, {"chosen": "yes"}), ({"a": "2"}, {})):
            management.apply(CONFIG_MAP, config_map(namespace, "one", data, **labels), manager="test")
        management.patch(CONFIG_MAP, Key(namespace, "one"), {"metadata": {"annotations": {"no": "matter"}}})
        management.delete(CONFIG_MAP, Key(namespace, "one"))
        until(lambda: recorder.changes().count(("delete", "one")) == 3)
    reported = {name: [event.change for event, functions in recorder.events if name in functions] for name in triggers}
    assert reported == {
        "data": ["add", "update", "delete"],
        "labels": ["add", "update", "update", "delete"],
        "gone": ["delete"],
        "chosen": ["add", "delete"],
        "reference": ["add", "update", "delete"],
    }
    assert all((event.object is None) == (functions == ("reference",)) for event, functions in recorder.events)


def test_secrets_are_watched_without_fetching_their_values(management: Client, namespace: str) -> None:
    with pytest.raises(ValueError, match="reference only"):
        informer_specs([Triggers("careless", (Watch(SECRET),))])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "s"}}
    management.create(SECRET, secret | {"stringData": {"key": "hidden"}})
    recorder = ChangeRecorder()
    careful = {"careful": Triggers("careful", (Watch(SECRET, reference=True),))}
    with watching(management, careful, recorder, namespace=namespace):
        management.patch(SECRET, Key(namespace, "s"), {"stringData": {"key": "other"}})
        recorder.waits_for("update", "s")
        management.delete(SECRET, Key(namespace, "s"))
        recorder.waits_for("delete", "s")
    assert recorder.changes() == [("add", "s"), ("update", "s"), ("delete", "s")]
    expected = {"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": "s"}
    assert all(event.data == expected for event, _ in recorder.events)
    management.create(SECRET, secret | {"stringData": {"key": "hidden"}})
    [page] = management.pages(SECRET, namespace, accept=METADATA_LIST)
    assert "data" not in page["items"][0]


def test_function_does_not_hear_of_objects_that_it_has_created(management: Client, namespace: str) -> None:
    """Of one that it created while nobody watched it does, and of each change of one."""
    watch = Watch(SECRET, reference=True)
    triggers = {
        "makes": Triggers("makes", (replace(watch, creator="maker"),)),
        "reads": Triggers("reads", (watch,)),
    }
    management.create(SECRET, objects.secret("before", namespace), manager="maker")
    recorder = ChangeRecorder()
    with watching(management, triggers, recorder, namespace=namespace):
        for name, manager in (("own", "maker"), ("users", "kubectl")):
            management.create(SECRET, objects.secret(name, namespace), manager=manager)
        changed = {"data": {"value": "eA=="}}
        management.patch(SECRET, Key(namespace, "own"), changed, manager="maker")
        recorder.waits_for("update", "own")
        management.delete(SECRET, Key(namespace, "own"))
        recorder.waits_for("delete", "own")
    heard = [(event.change, event.name) for event, functions in recorder.events if "makes" in functions]
    assert heard == [("add", "before"), ("add", "users"), ("update", "own"), ("delete", "own")]
    assert ("add", "own") in recorder.changes(), "another function hears of it"


def test_secrets_and_config_maps_are_reported_only_if_a_provider_references_them(
    management: Client, namespace: str
) -> None:
    triggers = {name: catalog.triggers()[name] for name in ("provider_preflight", "provider_wake")}
    recorder = ChangeRecorder()

    def provider(name: str, **spec: Any) -> None:
        metadata = {"namespace": namespace, "name": name}
        body = {"apiVersion": IPAM.resource.api_version, "kind": IPAM.kind, "metadata": metadata, "spec": spec}
        management.create(IPAM.resource, body)
        recorder.waits_for("add", name)

    def inputs(*names: str) -> set[tuple[str, str]]:
        """Creates these objects and returns which are reported, once the last one is, which a provider references."""
        for name in names:
            metadata = {"namespace": namespace, "name": name}
            management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
            management.create(CONFIG_MAP, config_map(namespace, name, {}))
        until(lambda: recorder.changes().count(("add", names[-1])) == 2)
        return {(event.kind, event.name) for event, _ in recorder.events if event.name in names}

    with watching(management, triggers, recorder, namespace=namespace):
        provider("one", configSecret={"name": "first"}, additionalManifests={"name": "first"})
        assert inputs("of-nobody", "first") == {("Secret", "first"), ("ConfigMap", "first")}
        provider("two", configSecret={"name": "second"}, fetchConfig={"selector": {"matchLabels": {"a": "b"}}})
        assert inputs("selected-perhaps", "second") == {
            ("ConfigMap", "selected-perhaps"),
            ("Secret", "second"),
            ("ConfigMap", "second"),
        }
        for name in ("one", "two"):
            management.delete(IPAM.resource, Key(namespace, name))
        provider("three", configSecret={"name": "third"}, additionalManifests={"name": "third"})
        management.patch(SECRET, Key(namespace, "first"), {"stringData": {"key": "other"}})
        assert inputs("of-nobody-now", "third") == {("Secret", "third"), ("ConfigMap", "third")}
        assert ("update", "first") not in recorder.changes()


@pytest.mark.parametrize("sets", [True, False], ids=["with sets", "without their function"])
def test_sources_are_reported_only_if_an_object_reads_them(management: Client, namespace: str, sets: bool) -> None:
    names = ("helm_release_proxy", "source_wake", *(["cluster_resource_set"] if sets else []))
    recorder = ChangeRecorder()
    resources = [{"kind": "ConfigMap", "name": "of-set"}]
    spec = {"clusterSelector": {"matchLabels": {"cni": "x"}}, "resources": resources}
    management.create(CLUSTER_RESOURCE_SET, objects.manifest(CLUSTER_RESOURCE_SET, "set", namespace, spec=spec))
    chart = {"chartName": "c", "repoURL": "https://a.b", "clusterRef": {"kind": "Cluster", "name": "demo"}}
    spec = {**chart, "valuesFrom": [{"kind": "ConfigMap", "name": "of-release"}]}
    management.create(HELM_RELEASE_PROXY, objects.manifest(HELM_RELEASE_PROXY, "release", namespace, spec=spec))
    with watching(management, {name: catalog.triggers()[name] for name in names}, recorder, namespace=namespace):
        recorder.waits_for("add", "release")
        for name in ("of-nobody", "of-set", "of-release"):
            management.create(CONFIG_MAP, config_map(namespace, name, {}))
            management.create(SECRET, objects.secret(name, namespace))
        recorder.waits_for("add", "of-release")
    reported = {(event.kind, event.name) for event, functions in recorder.events if "source_wake" in functions}
    assert reported == {("ConfigMap", "of-release"), *([("ConfigMap", "of-set")] if sets else [])}


def test_swept_cluster_reaches_functions_of_sets_and_charts_only_if_there_are_any(
    management: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_clusters = ("cluster", "cluster_wake", "cluster_resource_set_binding")
    calls: list[tuple[str, str]] = []

    def deliver(function: str, event: Event) -> Answer:
        if event.resync and event.kind == CLUSTER.kind:
            calls.append((event.name, function))
        return Answer(204)

    def reached_by_sweep(name: str) -> set[str]:
        """Sends the Cluster as the sweep does, and returns the functions that get it."""
        cluster = objects.manifest(CLUSTER, name, namespace)
        event = change_event(cluster, "update", source="/sweep", reference=True, resync=True)
        assert emit(SWEEP, [event], "events").status == 204
        assert forwarder.drain(HANGS)
        return {function for of, function in calls if of == name}

    declared = {name: catalog.triggers()[name] for name in (*of_clusters, "cluster_resource_set", "helm_chart_proxy")}
    with forwarding(management, deliver, declared, namespace=namespace, port=0) as forwarder:
        assert forwarder.ingress is not None
        monkeypatch.setenv("K_SINK", forwarder.ingress.url)
        assert reached_by_sweep("first") == {"cluster"}
        spec = {"clusterSelector": {"matchLabels": {"cni": "x"}}, "resources": [{"kind": "Secret", "name": "s"}]}
        management.create(CLUSTER_RESOURCE_SET, objects.manifest(CLUSTER_RESOURCE_SET, "set", namespace, spec=spec))
        management.create(
            CLUSTER_RESOURCE_SET_BINDING,
            objects.manifest(CLUSTER_RESOURCE_SET_BINDING, "known", namespace, spec={"clusterName": "known"}),
        )
        until(lambda: reached_by_sweep("known") == {*of_clusters})
        assert reached_by_sweep("second") == {"cluster", "cluster_wake"}


def test_kind_that_is_defined_later_is_watched(
    management: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = ChangeRecorder()
    widget = {**WIDGET, "metadata": {"namespace": namespace, "name": "w"}}
    with (
        caplog.at_level("INFO", logger="capi-functions.events"),
        watching(management, {"w": Triggers("w", (Watch(NOT_SERVED),))}, recorder),
    ):
        management.create(CRD, WIDGETS)
        try:
            until(lambda: dig(management.get(CRD, Key("", "widgets.example.dev")), "status.acceptedNames.kind"))
            until(lambda: _created(management, widget))
            recorder.waits_for("add", "w")
        finally:
            management.delete(CRD, Key("", "widgets.example.dev"))
        recorder.waits_for("delete", "w")
    assert len([record for record in caplog.records if "not served" in record.message]) <= 2
    assert not [record for record in caplog.records if record.exc_info]


def test_objects_of_a_kind_whose_definition_is_deleted_before_the_watch_opens_are_reported_as_deleted(
    management: Client, namespace: str
) -> None:
    class DeletesTheDefinition(ChangeRecorder):
        """Is called with the listed object before the watch that follows the list."""

        def __call__(self, event: Event, functions: Collection[str]) -> None:
            super().__call__(event, functions)
            if event.change == "add":
                management.delete(CRD, Key("", "widgets.example.dev"))
                until(lambda: management.find(CRD, Key("", "widgets.example.dev")) is None)
                until(lambda: not objects.is_served(management, NOT_SERVED))

    management.create(CRD, WIDGETS)
    until(lambda: _created(management, {**WIDGET, "metadata": {"namespace": namespace, "name": "w"}}))
    recorder = DeletesTheDefinition()
    with watching(management, {"w": Triggers("w", (Watch(NOT_SERVED),))}, recorder):
        recorder.waits_for("delete", "w")


def test_kinds_of_providers_are_watched_by_the_labels_of_their_definitions(
    management: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An infrastructure kind of its own group: defined while the watcher runs, in two versions, and deleted in use.

    The first read of the definition fails. A change of its status is no reason to read it again. The watcher stops
    while it reports a deletion, and waits for that thread.
    """

    class Lingers(ChangeRecorder):
        def __call__(self, event: Event, functions: Collection[str]) -> None:
            super().__call__(event, functions)
            if event.change == "delete":
                time.sleep(0.5)

    recorder = Lingers()
    find = management.find
    failed: list[Key] = []
    read: list[Key] = []

    def fail_once(resource: Resource, key: Key) -> Object | None:
        if resource == CRD and not failed:
            failed.append(key)
            raise ApiError("unavailable", status=503)
        found = find(resource, key)
        if threading.current_thread().name == "watch-customresourcedefinitions":  # the others ask if their kind is gone
            read.append(key)
        return found

    monkeypatch.setattr(management, "find", fail_once)
    group, name = "example.dev", "cloudclusters.example.dev"
    names = {
        "plural": "cloudclusters",
        "singular": "cloudcluster",
        "kind": "CloudCluster",
        "listKind": "CloudClusterList",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": v, "served": True, "storage": v == "v1", "schema": schema} for v in ("v1", "v2")]
    definition = {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/v1beta1": "v1"}},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
    kind = Resource(group, "v1", "CloudCluster", "cloudclusters")

    def versions_seen(change: str, cloud: str) -> list[str]:
        return [event.api_version for event, _ in recorder.events if (event.change, event.name) == (change, cloud)]

    def created(cloud: str) -> bool:
        try:
            management.apply(kind, objects.manifest(kind, cloud, namespace), manager="test")
        except ApiError:
            return False
        return True

    def report(cloud: str) -> None:
        management.patch(kind, Key(namespace, cloud), {"status": {"ready": True}})

    with watching(management, {"cluster": catalog.triggers()["cluster"]}, recorder):
        for _ in range(2):  # the second time after its deletion
            management.create(CRD, definition)
            try:
                until(lambda: created("first"))
                # The watch of v2 that has just ended may report it, too, but no update.
                until(lambda: "example.dev/v1" in versions_seen("add", "first"))
                report("first")
                recorder.waits_for("update", "first")
                reads = len(read)
                reported = dig(find(CRD, Key("", name)), "status.conditions")
                example = {"type": "Example", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                status = {"conditions": [*reported, example]}
                management.patch(CRD, Key("", name), {"status": status}, subresource="status")
                assert set(versions_seen("update", "first")) == {"example.dev/v1"}
                # The provider's next version follows another contract, in another version of the kind.
                labels = {"cluster.x-k8s.io/v1beta2": "v2"}
                management.patch(CRD, Key("", name), {"metadata": {"labels": labels}})
                until(lambda: created("second"))
                until(lambda: "example.dev/v2" in versions_seen("add", "second"))
                assert len(read) == reads + 1
            finally:
                management.delete(CRD, Key("", name))
                until(lambda: management.find(CRD, Key("", name)) is None)
            until(partial(_has_more_than, read, reads + 1), "the deletion of the definition is seen")
            recorder.waits_for("delete", "first")
            recorder.events.clear()
    assert failed


def _has_more_than(items: Sequence[object], number: int) -> bool:
    return len(items) > number


def _created(client: Client, obj: Object) -> bool:
    try:
        client.apply(NOT_SERVED, obj, manager="test")
    except Exception:
        return False
    return True


def test_burst_is_coalesced_to_the_last_state(management: Client, namespace: str) -> None:
    """The first call waits until the watch has reported all changes, so that no count depends on speed."""
    seen: list[str] = []
    held, behind = threading.Event(), threading.Event()

    def deliver(_function: str, event: Event) -> Answer:
        if event.name == "busy":
            seen.append(event.data["data"]["n"])
            if seen == ["0"]:
                held.set()
                behind.wait(HANGS)
        elif event.name == "behind":  # changes arrive in order, so those of "busy" are queued
            behind.set()
        return Answer(204)

    with forwarding(management, deliver, namespace=namespace) as forwarder:
        management.create(CONFIG_MAP, config_map(namespace, "busy", {"n": "0"}))
        assert held.wait(HANGS)
        for number in range(1, 100):
            management.apply(CONFIG_MAP, config_map(namespace, "busy", {"n": str(number)}), manager="test")
        management.create(CONFIG_MAP, config_map(namespace, "behind", {}))
        assert behind.wait(HANGS)
        assert forwarder.drain(60)
        stats = forwarder.dispatcher.stats
    assert seen == ["0", "99"]
    assert stats.coalesced == 99


def test_delivery_recovers_after_refused_connections(management: Client, namespace: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    deliver = HttpDelivery(f"http://127.0.0.1:{port}")
    with forwarding(management, deliver, namespace=namespace) as forwarder:
        management.create(CONFIG_MAP, config_map(namespace, "one", {"a": "1"}))
        until(lambda: forwarder.dispatcher.stats.by_status[503] >= 2)
        with EventReceiver(port=port) as receiver:
            until(lambda: [event.name for _, event, _ in receiver.received if event.name == "one"])
            assert forwarder.drain(60)
    deliver.close()


def test_stop_leaves_what_fails_to_the_next_forwarder_except_what_no_list_shows(
    management: Client, namespace: str
) -> None:
    for name in ("fails", "deleted"):
        management.create(CONFIG_MAP, config_map(namespace, name, {"a": "1"}))
    failures = dict.fromkeys(("fails", "deleted"), 0)

    def deliver(_function: str, event: Event) -> Answer:
        if event.name not in failures or (event.name, event.change) == ("deleted", "add"):
            return Answer(204)
        failures[event.name] += 1
        return Answer(204 if event.name == "deleted" and stopped.is_set() else 503)

    stopped = threading.Event()
    with forwarding(management, deliver, namespace=namespace) as forwarder:
        management.delete(CONFIG_MAP, Key(namespace, "deleted"))
        until(lambda: all(count > 1 for count in failures.values()))
        stopped.set()
        forwarder.stop(drain=HANGS)
        assert forwarder.dispatcher.pending() == Pending()


def check_watch_that_fell_behind(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Asserts that a list follows a watch that the server answers with 410, for a version from before its start."""
    recorder, versions, original = ChangeRecorder(), [], client.watch

    def old(*arguments: Any, version: str, **options: Any) -> Generator[Object, None, None]:
        versions.append(version)
        return original(*arguments, version="1" if len(versions) == 1 else version, **options)

    client.watch = old  # type: ignore[method-assign]
    with caplog.at_level("INFO", "capi-functions.events"), watching(client, CONFIG, recorder, namespace="default"):
        until(lambda: len(versions) == 2)
        known = len(recorder.events)
        client.create(CONFIG_MAP, config_map("default", "later", {"a": "1"}))
        recorder.waits_for("add", "later")
    assert "fell behind" in caplog.text
    assert len(recorder.events) == known + 1, "the second list brought nothing new"


def test_changes_during_an_api_server_restart_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server restarts, and before the watcher lists again, objects are deleted, replaced and created."""
    plane = tmp_path / "plane"
    local_control_plane.start(plane, owner=os.getpid())
    client = connect.from_kubeconfig(str(local_control_plane.kubeconfig(plane)))
    other = connect.from_kubeconfig(str(local_control_plane.kubeconfig(plane)))
    recorder = ChangeRecorder()
    try:
        for name in ("stays", "goes", "changes", "replaced"):
            other.create(CONFIG_MAP, config_map("default", name, {"a": "1"}, team="x"))
        with watching(client, CONFIG, recorder, namespace="default") as watcher:
            # The list after the break is delayed, so that the watch misses what follows, whatever the timing.
            [informer] = watcher._informers
            entered, go = threading.Event(), threading.Event()
            original = client.pages

            def held(*arguments: Any, **options: Any) -> Iterator[Object]:
                entered.set()
                go.wait(HANGS)
                return original(*arguments, **options)

            client.pages = held  # type: ignore[method-assign]
            recorder.events.clear()
            local_control_plane.stop(plane)
            local_control_plane.start(plane, owner=os.getpid())
            assert entered.wait(HANGS), "after a break the watcher lists again"
            other.delete(CONFIG_MAP, Key("default", "goes"))
            other.delete(CONFIG_MAP, Key("default", "replaced"))
            other.create(CONFIG_MAP, config_map("default", "replaced", {"a": "2"}))
            other.create(CONFIG_MAP, config_map("default", "new", {"a": "1"}))
            other.apply(CONFIG_MAP, config_map("default", "changes", {"a": "2"}), manager="test")
            go.set()
            recorder.waits_for("delete", "goes")
            assert sorted(recorder.changes()) == [
                ("add", "new"),
                ("add", "replaced"),
                ("delete", "goes"),
                ("delete", "replaced"),
                ("update", "changes"),
            ]
            [gone] = [event for event, _ in recorder.events if (event.change, event.name) == ("delete", "goes")]
            assert gone.data["metadata"]["labels"] == {"team": "x"}
            assert gone.data["metadata"]["uid"]
            other.create(CONFIG_MAP, config_map("default", "after", {"a": "1"}))
            recorder.waits_for("add", "after")
            assert informer.thread.is_alive()
        check_watch_that_fell_behind(other, caplog)
    finally:
        local_control_plane.stop(plane)
        client.close()
        other.close()


def test_silent_watch_does_not_time_out(management: Client, namespace: str) -> None:
    """The read timeout of requests does not apply to watches, which may be silent for minutes."""
    [page] = management.pages(CONFIG_MAP, namespace)
    management._transport.timeout = (60.0, 0.5)
    began = time.monotonic()
    list(management.watch(CONFIG_MAP, namespace, version=page["metadata"]["resourceVersion"], seconds=2))
    assert time.monotonic() - began > 1.5


def test_captured_inputs_and_events_can_be_replayed(management: Client, namespace: str, tmp_path: Path) -> None:
    capture = Capture(tmp_path, management, CONFIG)
    capture._watcher._informers[0]._namespace = namespace  # type: ignore[union-attr]
    capture.start()
    assert capture.wait_synced(60)
    management.apply(CONFIG_MAP, config_map(namespace, "users", {"a": "1"}), manager="kubectl")
    management.create(CONFIG_MAP, config_map(namespace, "ours", {"a": "1"}))
    patch = {"metadata": {"finalizers": ["example.dev/ours"]}, "data": {"added": "by us"}}
    management.patch(CONFIG_MAP, Key(namespace, "users"), patch, manager="capi-functions")
    until(lambda: len(list((tmp_path / "events").glob("*users*"))) == 2)
    recording = capture.stop()
    management.patch(CONFIG_MAP, Key(namespace, "users"), {"metadata": {"finalizers": None}})
    assert [obj["metadata"]["name"] for obj in recording.inputs] == [namespace, "users"]
    assert recording.inputs[1]["data"] == {"a": "1"}
    assert "finalizers" not in recording.inputs[1]["metadata"]

    management.delete(CONFIG_MAP, Key(namespace, "users"))
    applied = apply_inputs(management, recording.inputs)
    assert applied[1]["data"] == {"a": "1"}
    calls: list[str] = []
    forwarder = Forwarder(management, CONFIG, lambda _f, event: calls.append(event.name) or Answer(204))  # type: ignore[func-returns-value]
    try:
        assert replay(recording.events, forwarder.dispatcher, double=True, shuffle_seed=1)
    finally:
        forwarder.stop()
    assert len(calls) == 2 * len(recording.events)


def test_forwarder_process_posts_to_the_sink_and_drains_on_sigterm(
    management: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    with EventReceiver() as receiver:
        environment = os.environ | {"KUBECONFIG": str(kubeconfig), "K_SINK": receiver.url + "/broker"}
        environment["LOG_FORMAT"] = "json"
        command = [sys.executable, "-m", "infra.forwarder", "--port", "0", "--namespace", namespace]
        with (tmp_path / "log").open("wb") as log:
            process = processes.start(command, env=environment, stderr=log)
        try:
            until(lambda: b"all kinds are listed" in (tmp_path / "log").read_bytes())
            cluster = {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind}
            management.create(CLUSTER, cluster | {"metadata": {"namespace": namespace, "name": "one"}, "spec": {}})
            until(lambda: [event for _, event, _ in receiver.received if event.kind == CLUSTER.kind])
            labels = {"cluster.x-k8s.io/cluster-name": "one"}
            metadata = {"namespace": namespace, "name": "one-ca", "labels": labels}
            management.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
            until(lambda: [event for _, event, _ in receiver.received if event.name == "one-ca"])
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANGS) == 0
    path, event = next((path, event) for path, event, _ in receiver.received if event.name == "one-ca")
    assert (path, event.type) == ("broker", "dev.knative.apiserver.ref.add")
    entries = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert not [entry for entry in entries if "traceback" in entry]


def test_latency_from_change_to_call_is_printed(
    management: Client, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints the latency from the write to the call of the function, at 100 changes a second, without a limit."""
    sent: dict[str, float] = {}
    arrived: dict[str, float] = {}
    with EventReceiver() as receiver:
        deliver = HttpDelivery(receiver.url)
        with forwarding(management, deliver, namespace=namespace) as forwarder:
            began = time.time()
            for number in range(500):
                time.sleep(max(0.0, began + number / 100 - time.time()))
                name = f"c{number}"
                sent[name] = time.time()
                management.create(CONFIG_MAP, config_map(namespace, name, {"n": name}))
            rate = 500 / (time.time() - began)
            assert forwarder.drain(60, quiet=0.3)
            inside = forwarder.dispatcher.stats
        deliver.close()
        for _, event, at in receiver.received:
            arrived.setdefault(event.name, at)
    took = sorted(arrived[name] - at for name, at in sent.items())
    figures = {
        "changes per second": round(rate),
        "write sent -> call received, p50 ms": round(took[250] * 1000, 1),
        "p99 ms": round(took[495] * 1000, 1),
        "in the queue, p50 ms": round(inside.percentile(50) * 1000, 2),
        "in the queue, p99 ms": round(inside.percentile(99) * 1000, 2),
    }
    with capsys.disabled():
        print("\nforwarder:", json.dumps(figures))
