"""`addon_apply` in its own server as deployed: the worker is forked from a process that has loaded the function."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from events.delivery import Deliver, HttpDelivery, InProcessDelivery
from functions import catalog
from infra.local.functions_server import FunctionsServer
from shared.api.resources import CONFIG_MAP, NAMESPACE
from shared.clients import Clients
from shared.event import Event
from shared.kube import Client
from shared.runtime import Answer
from shared.storage import ObjectStore
from tests.support.releases import write_release
from tests.support.swept_addons import SweptAddons, owned
from tests.support.until import HANGS

AT_ONCE = 8
CHART = """{{ range until 5 }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "m{{ . }}", namespace: "{{ $.Values.namespace }}"}}
{{ end }}"""
VALUES = "namespace: {{ .Cluster.metadata.namespace }}"


@pytest.fixture
def deliver(
    clients: Clients,
    kubeconfig: Path,
    object_store: ObjectStore,  # sets the environment
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Deliver]:
    monkeypatch.setenv("RELEASE_SOURCE", str(tmp_path))
    server = FunctionsServer({**os.environ, "KUBECONFIG": str(kubeconfig)}, tmp_path / "log", function="addon_apply")
    alone = HttpDelivery(server.url, single=True, timeout=(2.0, HANGS))
    others = InProcessDelivery(catalog.handler, clients)

    def deliver(name: str, event: Event) -> Answer:
        return (alone if name == "addon_apply" else others)(name, event)

    server.start()
    try:
        yield deliver
    finally:
        alone.close()
        server.kill()
        server.close()


def test_one_server_applies_addons_to_many_clusters_concurrently(
    management: Client, deliver: Deliver, kubeconfig: Path, tmp_path: Path
) -> None:
    """The chart library renders in threads, which a fork does not copy."""
    templates = {"all.yaml": CHART}
    names = [write_release(tmp_path, f"v{number}", templates=templates, values=VALUES) for number in range(1, 6)]

    def live(number: int) -> str:
        namespace = f"test-{uuid.uuid4().hex[:8]}"
        management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        addons = SweptAddons(management, namespace, kubeconfig.read_bytes(), deliver)
        for name in names:
            addons.apply_class(name)
            addons.until(partial(addons.ready, name), name)
        return namespace

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for namespace in pool.map(live, range(AT_ONCE)):
            assert len(owned(management, CONFIG_MAP, namespace)) == 5
