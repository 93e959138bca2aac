"""A Cluster whose name is too long for a label, or for the name of its ClusterAddon."""

from __future__ import annotations

import pytest

from functions import catalog
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON, EVENT
from shared.clients import Clients
from shared.event import change_event
from shared.kube import Client
from tests.support import objects


@pytest.mark.parametrize("length", [63, 64, 240])
def test_user_is_told_that_the_name_is_too_long(
    management: Client, clients: Clients, namespace: str, length: int
) -> None:
    body = objects.manifest(
        CLUSTER, "c" * length, namespace, spec={"topology": {"classRef": {"name": "docker-ferrol-1-27-v2"}}}
    )
    cluster = management.create(CLUSTER, body)
    for expected in (200, 204) if length == 63 else (204, 204):
        answer = catalog.handler("addon_create")(clients, change_event(cluster, "update", source="/test"))
        assert (answer.status, answer.retry_after) == (expected, None)
    events = [(event["reason"], event["involvedObject"]["name"]) for event in management.list(EVENT, namespace)]
    assert events == ([] if length == 63 else [("NameTooLong", "c" * length)])
    assert (management.find(CLUSTER_ADDON, addon_of(cluster)) is not None) == (length == 63)
