"""Replay of the demo's recording: same result on an empty control plane, and no effect when repeated."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.capture import load
from events.delivery import InProcessDelivery
from events.dispatcher import Dispatcher
from events.replay import apply_inputs, replay
from functions import catalog
from infra import local_control_plane
from infra.cli.demo import RELEASES
from shared.api.resources import CLUSTER, CLUSTER_ADDON, KIND_CLUSTER, SECRET
from shared.applier.inventory import load as load_inventory
from shared.clients import Clients, ClusterClients
from shared.kube import Client, Key, Object, connect, dig, key_of
from shared.storage import ObjectStore
from tests.support.planes import connected, running_plane
from tests.support.until import HANGS

CAPTURED = Path(__file__).parents[2] / "events" / "captured" / "demo"


@pytest.fixture
def empty(tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a control plane with our CRDs only."""
    monkeypatch.setenv("RELEASE_SOURCE", str(RELEASES))
    monkeypatch.setenv("CAPI_FUNCTIONS_DATA", str(tmp_path))
    monkeypatch.setenv("CAPI_FUNCTIONS_OWNER", str(os.getpid()))
    with running_plane(tmp_path / "management") as folder, connected(folder) as client:
        yield client
    for plane in (tmp_path / "clusters").glob("*"):
        local_control_plane.stop(plane)


def essence(obj: Object) -> dict[str, Any]:
    """Returns the fields that are equal in two runs: without uids, times and ports."""
    kept: dict[str, Any] = {"phase": dig(obj, "status.phase"), "ready": dig(obj, "status.ready")}
    kept["finalizers"] = dig(obj, "metadata.finalizers")
    conditions = dig(obj, "status.conditions", [])
    kept["conditions"] = {(c.get("type", ""), c.get("status", ""), c.get("reason", "")) for c in conditions}
    if obj["kind"] == CLUSTER_ADDON.kind:
        kept["spec"] = {name: obj["spec"].get(name) for name in ("clusterStack", "version", "hook")}
        entries = load_inventory(dig(obj, "status.resources"))
        kept["resources"] = {(str(entry), entry.status, entry.error) for entry in entries}
    return kept


def everything(management: Client, workload: ClusterClients) -> dict[str, str]:
    """Returns the resourceVersion of every object of the functions in both clusters."""
    found = {}
    for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON, SECRET):
        for obj in management.list(resource):
            found[f"management {obj['kind']} {obj['metadata']['name']}"] = obj["metadata"]["resourceVersion"]
    addon = management.get(CLUSTER_ADDON, Key("default", "cluster-addon-demo"))
    for entry in load_inventory(dig(addon, "status.resources")):
        served = workload.discovery.resource(entry.api_version, entry.kind)
        assert served is not None
        obj = workload.client.get(served, Key(entry.namespace, entry.name))
        found[f"workload {entry}"] = obj["metadata"]["resourceVersion"]
    return found


def test_replay_reaches_the_recorded_state_and_repeats_change_nothing(empty: Client) -> None:
    recording = load(CAPTURED)
    clients = Clients(empty)
    dispatcher = Dispatcher(catalog.triggers(), InProcessDelivery(catalog.handler, clients))
    try:
        apply_inputs(empty, recording.inputs)
        assert replay(recording.events, dispatcher, timeout=HANGS, ignore_waits_above=9)
        # Events of the functions' own writes are not watched here; the sweep replaces them.
        assert replay(recording.events, dispatcher, timeout=HANGS, ignore_waits_above=9)
        resources = {resource.kind: resource for resource in (CLUSTER, KIND_CLUSTER, CLUSTER_ADDON)}
        assert {obj["kind"] for obj in recording.end} == set(resources)
        for obj in recording.end:
            assert essence(empty.get(resources[obj["kind"]], key_of(obj))) == essence(obj)

        secret = empty.get(SECRET, Key("default", "demo-kubeconfig"))
        workload = ClusterClients(connect.workload(base64.b64decode(secret["data"]["value"])))
        before = everything(empty, workload)
        assert len(before) == 3 + 4 + 14
        for seed in (1, 2):
            assert replay(
                recording.events, dispatcher, double=True, shuffle_seed=seed, timeout=HANGS, ignore_waits_above=9
            )
        assert replay(
            recording.events, dispatcher, double=True, shuffle_seed=3, pace=0.0, timeout=HANGS, ignore_waits_above=9
        )
        assert everything(empty, workload) == before
        assert set(dispatcher.stats.by_status) <= {200, 202, 204, 503}
    finally:
        dispatcher.stop()
