"""What starts `kubeconfig`: the Cluster getting an endpoint, its CA arriving, its kubeconfig vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.names import CA_SUFFIX, KUBECONFIG_SUFFIX, cluster_of_secret
from shared.api.resources import CLUSTER, SECRET
from shared.kube import Key
from shared.triggers import SPEC, Rule, Triggers, Watch


def cluster_of(secret: Mapping[str, Any]) -> Key | None:
    return cluster_of_secret(secret, CA_SUFFIX, KUBECONFIG_SUFFIX)


TRIGGERS = Triggers(
    name="kubeconfig",
    watches=(
        Watch(CLUSTER, fields=(*SPEC, "metadata.annotations")),
        Watch(SECRET, key=cluster_of, reference=True, selector=CLUSTER_NAME_LABEL),
    ),
    rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER.group, ("clusters",), ("get",))),
)
