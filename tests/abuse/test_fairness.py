"""A tenant with slow workload servers, or slow charts, leaves threads and slots to the tenants beside it.

`addon_apply` runs in its own server as deployed, with eight threads.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from events.delivery import Deliver, HttpDelivery, InProcessDelivery
from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CONFIG_MAP, NAMESPACE
from shared.clients import Clients
from shared.event import Event
from shared.kube import Client, circuit_breaker
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.hostile import kubeconfig as kubeconfig_of
from tests.support.releases import config_map, write_release
from tests.support.swept_addons import SweptAddons, owned
from tests.support.tenants import SlowServer, tenant_with_clusters
from tests.support.until import HANGS, until

ENDLESS = '{{ define "f" }}' + "{{ range until 1000 }}" * 4 + "{{ end }}" * 4 + '{{ end }}{{ include "f" . }}'
UPGRADES = 5


@pytest.fixture
def functions(
    kubeconfig: Path,
    object_store: ObjectStore,  # sets the environment
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FunctionsServer]:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "THREADS": "8"}
    server = FunctionsServer(environment, tmp_path / "log", function="addon_apply")
    server.start()
    yield server
    server.kill()
    server.close()


@pytest.fixture
def deliver(clients: Clients, functions: FunctionsServer) -> Iterator[Deliver]:
    alone = HttpDelivery(functions.url, single=True, timeout=(2.0, HANGS))
    others = InProcessDelivery(catalog.handler, clients)

    def deliver(name: str, event: Event) -> Answer:
        return (alone if name == "addon_apply" else others)(name, event)

    yield deliver
    alone.close()


@pytest.fixture
def good(management: Client, kubeconfig: Path, deliver: Deliver) -> SweptAddons:
    """A tenant whose cluster is fast: the management cluster itself."""
    namespace = f"test-good-{uuid.uuid4().hex[:8]}"
    management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return SweptAddons(management, namespace, kubeconfig.read_bytes(), deliver)


def upgrade(good: SweptAddons, folder: Path) -> None:
    """Takes the good tenant's cluster through releases, each of which is rendered and applied."""
    for number in range(UPGRADES):
        name = write_release(folder, f"v{number + 1}", [config_map(f"map-{number}", "1", good.namespace)])
        good.apply_class(name)
        good.until(partial(good.ready, name), name)
    assert list(owned(good.client, CONFIG_MAP, good.namespace)) == [f"map-{UPGRADES - 1}"]


def test_fourteen_clusters_with_slow_servers_leave_threads_to_another_tenant(
    management: Client,
    namespace: str,
    functions: FunctionsServer,
    deliver: Deliver,
    good: SweptAddons,
    tmp_path: Path,
) -> None:
    with SlowServer(2.0) as server:  # within the patience of a function beside other tenants
        ca = {"certificate-authority-data": server.ca_data}
        kubeconfigs = [kubeconfig_of(server.url, {"token": f"user-{number}"}, **ca) for number in range(14)]
        hostile = tenant_with_clusters(management, namespace, kubeconfigs, "test-stack-1-36-v99")
        with hostile.sending(deliver):
            until(lambda: server.in_progress > 0, "the hostile servers hold threads")
            upgrade(good, tmp_path)
            assert hostile.waiting, "the hostile tenant waits meanwhile"
            functions.kill()
    assert server.most < circuit_breaker.MAX_UNPROVEN_REQUESTS, "one tenant leaves a slot to others"


def test_six_clusters_with_endless_charts_leave_a_slot_to_another_tenant(
    management: Client,
    namespace: str,
    kubeconfig: Path,
    functions: FunctionsServer,
    deliver: Deliver,
    good: SweptAddons,
    tmp_path: Path,
) -> None:
    name = write_release(tmp_path, "v90", templates={"all.yaml": ENDLESS})
    hostile = tenant_with_clusters(management, namespace, [kubeconfig.read_bytes()] * 6, name)
    wanted = deliver("addon_apply", hostile.events[0]).reply
    assert wanted
    deliver("release_assets", wanted)
    with hostile.sending(deliver):
        until(lambda: hostile.waiting > 0, "the hostile charts are rendered")
        upgrade(good, tmp_path)
        assert hostile.waiting, "the hostile tenant waits meanwhile"
        functions.kill()
