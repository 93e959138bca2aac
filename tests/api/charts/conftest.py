"""Fixtures of the tests of charts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.api.resources import CLUSTER, HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.clients import Clients
from shared.kube import Client, Key
from tests.support import objects
from tests.support.chart_proxies import Charts
from tests.support.event_receiver import EventReceiver


@pytest.fixture
def charts(management: Client, clients: Clients, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Charts]:
    with EventReceiver() as sink:
        monkeypatch.setenv("K_SINK", sink.url)
        yield Charts(management, clients, namespace, sink)
    for resource in (HELM_CHART_PROXY, HELM_RELEASE_PROXY, CLUSTER):
        for obj in list(management.list(resource, namespace)):
            objects.remove(management, resource, Key(namespace, obj["metadata"]["name"]))
