"""What starts `addon_apply`: its ClusterAddon, the Cluster, the kubeconfig, and a release that was fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, CLUSTER_ADDON, SECRET
from shared.event import OWN, Event
from shared.kube import Key, key_of
from shared.triggers import SPEC, Rule, Subscription, Triggers, Watch

PREFIX = "cluster-addon-"
KUBECONFIG = "-kubeconfig"


def addon_of_cluster(cluster: Mapping[str, Any]) -> Key:
    key = key_of(cluster)
    return Key(key.namespace, PREFIX + key.name)


def addon_of_secret(secret: Mapping[str, Any]) -> Key | None:
    key = key_of(secret)
    if not key.name.endswith(KUBECONFIG):
        return None
    return Key(key.namespace, PREFIX + key.name.removesuffix(KUBECONFIG))


def asker(event: Event) -> Key | None:
    return event.key if event.kind == CLUSTER_ADDON.kind else None


TRIGGERS = Triggers(
    name="addon_apply",
    watches=(
        Watch(CLUSTER_ADDON, fields=SPEC, changes=("add", "update")),
        Watch(
            CLUSTER,
            key=addon_of_cluster,
            fields=(
                "spec.topology.class",
                "spec.topology.classRef",
                "spec.paused",
                "metadata.annotations",
                "metadata.deletionTimestamp",
            ),
        ),
        Watch(
            SECRET,
            key=addon_of_secret,
            reference=True,
            selector=CLUSTER_NAME_LABEL,
            changes=("add", "update"),
        ),
    ),
    subscriptions=(Subscription(OWN + "release.fetched", asker),),
    rules=(
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "patch")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("get",)),
        Rule("", ("secrets",), ("get",)),
        # Values templates look at what the Cluster refers to, of whatever provider.
        Rule("infrastructure.cluster.x-k8s.io", ("*",), ("get",)),
        Rule("infrastructure.cluster-k8s.io", ("*",), ("get",)),
        Rule("controlplane.cluster.x-k8s.io", ("*",), ("get",)),
    ),
)
