"""Which changes reach `addon_cleanup`, `kubeconfig`, `cluster` and `release_assets`: the others cost no call at all."""

from __future__ import annotations

from typing import Any

import pytest

from functions.addon_cleanup.triggers import TRIGGERS as CLEANUP
from functions.cluster.triggers import TRIGGERS as OF_CLUSTER
from functions.kubeconfig.triggers import TRIGGERS as KUBECONFIG
from functions.release_assets.triggers import TRIGGERS as ASSETS
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.event import change_event, own_event
from shared.kube import Key, Object, Resource
from shared.triggers import Triggers

DEMO, ADDON = Key("ns", "demo"), Key("ns", "cluster-addon-demo")


def obj(resource: Resource, metadata: Object | None = None, **fields: Any) -> Object:
    name = "demo" if resource is CLUSTER else "cluster-addon-demo"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": "ns", "name": name, **(metadata or {})},
        "spec": {},
        **fields,
    }


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ENDPOINT = {"controlPlaneEndpoint": {"host": "h", "port": 6443}}


@pytest.mark.parametrize(
    ("triggers", "changed", "key"),
    [
        (CLEANUP, obj(CLUSTER_ADDON), None),
        (CLEANUP, obj(CLUSTER_ADDON, spec={"hook": "AfterControlPlaneInitialized"}), None),
        (CLEANUP, obj(CLUSTER_ADDON, spec={"hook": "BeforeClusterDelete"}), ADDON),
        (CLEANUP, obj(CLUSTER), None),
        (CLEANUP, obj(CLUSTER, GOING), ADDON),
        (KUBECONFIG, obj(CLUSTER), None),
        (KUBECONFIG, obj(CLUSTER, spec={"controlPlaneEndpoint": {}}), None),
        (KUBECONFIG, obj(CLUSTER, spec=ENDPOINT), None),
        (KUBECONFIG, obj(CLUSTER, {"generation": 1}, status={"phase": "Pending", "observedGeneration": 1}), DEMO),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}, status={"phase": "Pending", "observedGeneration": 1}), None),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}, status={"phase": "Provisioned", "observedGeneration": 1}), DEMO),
    ],
)
def test_by_content(triggers: Triggers, changed: Object, key: Key | None) -> None:
    assert triggers.key(change_event(changed, "update", source="/test")) == key


@pytest.mark.parametrize(
    ("triggers", "resource", "key"),
    [(CLEANUP, CLUSTER_ADDON, ADDON), (CLEANUP, CLUSTER, ADDON), (KUBECONFIG, CLUSTER, DEMO)],
)
def test_a_reference_may_be_about_anything(triggers: Triggers, resource: Resource, key: Key) -> None:
    """As the sweep sends them."""
    event = change_event(obj(resource), "update", source="/sweep", reference=True, resync=True)
    assert triggers.key(event) == key


@pytest.mark.parametrize(
    ("triggers", "after", "matters"),
    [
        (OF_CLUSTER, obj(CLUSTER, {"finalizers": ["cluster.cluster.x-k8s.io"]}), False),
        (OF_CLUSTER, obj(CLUSTER, {"generation": 2}), True),
        (OF_CLUSTER, obj(CLUSTER, GOING), True),
        (OF_CLUSTER, obj(CLUSTER, status={"phase": "Pending"}), False),
        (KUBECONFIG, obj(CLUSTER, {"finalizers": ["cluster.cluster.x-k8s.io"]}), False),
        (KUBECONFIG, obj(CLUSTER, {"generation": 2}), False),
        (KUBECONFIG, obj(CLUSTER, spec={"topology": {"classRef": {"name": "c"}}}), False),
        (KUBECONFIG, obj(CLUSTER, spec=ENDPOINT), True),
        (KUBECONFIG, obj(CLUSTER, spec={"paused": True}), True),
        (KUBECONFIG, obj(CLUSTER, status={"phase": "Pending"}), True),
        (KUBECONFIG, obj(CLUSTER, status={"conditions": []}), False),
    ],
)
def test_by_difference(triggers: Triggers, after: Object, matters: bool) -> None:
    [watch] = [watch for watch in triggers.watches if watch.resource is CLUSTER]
    assert (watch.relevant(obj(CLUSTER)) != watch.relevant(after)) is matters


def test_wishes_of_nobody_in_particular_are_one_for_each_release() -> None:
    def key(release: str, namespace: str = "ns", about: Object | None = None) -> Key | None:
        data = {"release": release, "namespace": namespace}
        return ASSETS.key(own_event("release.wanted", source="/test", subject=release, about=about, data=data))

    assert key("r-v1") == key("r-v1")
    assert len({key("r-v1"), key("r-v2"), key("r-v1", "other"), key("r-v1", about=obj(CLUSTER_ADDON))}) == 4
    assert key("r-v1", about=obj(CLUSTER_ADDON)) == ADDON
    assert key("") is None
