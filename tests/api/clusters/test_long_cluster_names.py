"""A Cluster whose name is too long for a label."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions import catalog
from shared.api.names import addon_of
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.event import change_event
from shared.kube import ApiError, Client
from tests.support.objects import manifest

SPEC = {"topology": {"classRef": {"name": "docker-ferrol-1-27-v2"}}}


def test_longest_name_of_a_cluster_is_a_label_of_its_addon(
    management: Client, clients: Clients, namespace: str
) -> None:
    cluster = management.create(CLUSTER, manifest(CLUSTER, "c" * 63, namespace, spec=SPEC))
    assert catalog.handler("addon_create")(clients, change_event(cluster, "update", source="/test")).status == 200
    addon = management.get(CLUSTER_ADDON, addon_of(cluster))
    assert "c" * 63 in addon["metadata"]["labels"].values()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_cluster_with_a_longer_name_is_rejected(management: Client, namespace: str, version: str) -> None:
    """`addon_create` tried every 10 s to create its addon, and reported nothing."""
    cluster = {**manifest(CLUSTER, "c" * 64, namespace), "apiVersion": f"{CLUSTER.group}/{version}"}
    with pytest.raises(ApiError, match="the name of a Cluster must have at most 63 characters"):
        management.create(replace(CLUSTER, version=version), cluster)
