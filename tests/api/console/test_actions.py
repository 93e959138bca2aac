"""The actions that a page offers, with the rights of an account at a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.console.actions import Actions
from infra.operations.failure import Failure
from shared.api.names import ROLLBACK_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.kube import ApiError, Client, Key, Object
from tests.support import accounts
from tests.support.objects import manifest


def addon(namespace: str, entries: int, rolled_back: bool = False) -> Object:
    annotations = {ROLLBACK_ANNOTATION: "scs-1-36-v2"} if rolled_back else {}
    body = manifest(CLUSTER_ADDON, "cluster-addon-demo", namespace, metadata={"annotations": annotations})
    return {**body, "status": {"history": [{}] * entries}}


@pytest.mark.parametrize(
    ("entries", "rolled_back", "names"),
    [(1, False, []), (2, False, ["rollback"]), (2, True, ["undo-rollback"]), (1, True, ["undo-rollback"])],
)
def test_only_possible_actions_are_offered(
    management: Client, namespace: str, entries: int, rolled_back: bool, names: list[str]
) -> None:
    cluster = manifest(CLUSTER, "demo", namespace)
    offers = list(Actions(management).offers(cluster, addon(namespace, entries, rolled_back)))
    assert [(offer.name, offer.right) for offer in offers] == [(name, "") for name in names]


def test_missing_right_is_named_and_not_bypassed(management: Client, namespace: str, kubeconfig: Path) -> None:
    cluster = management.create(CLUSTER, manifest(CLUSTER, "demo", namespace, spec={"paused": True}))
    limited = accounts.with_rights(management, kubeconfig, namespace, CLUSTER.group, CLUSTER.plural, "get")
    actions = Actions(limited)
    [offer] = actions.offers(cluster, addon(namespace, 2))
    assert offer.right == f"patch clusteraddons.clusterstack.x-k8s.io in {namespace}"
    with pytest.raises(ApiError, match="forbidden"):
        actions.do("rollback", Key(namespace, "demo"))
    limited.close()


def test_impossible_actions_fail_with_a_reason(management: Client, namespace: str) -> None:
    management.create(CLUSTER, manifest(CLUSTER, "demo", namespace, spec={"paused": True}))
    for name, reason in (("rollback", "no ClusterAddon"), ("resync", "no local run"), ("unknown", "no action")):
        with pytest.raises(Failure, match=reason):
            Actions(management).do(name, Key(namespace, "demo"))
