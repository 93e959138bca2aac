"""What starts `kubeconfig`: the Cluster getting an endpoint, its CA arriving, its kubeconfig vanishing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.cluster import CLUSTER_NAME_LABEL
from shared.api.resources import CLUSTER, SECRET
from shared.kube import Key, key_of
from shared.triggers import SPEC, Rule, Triggers, Watch

CA, KUBECONFIG = "-ca", "-kubeconfig"


def cluster_of_secret(secret: Mapping[str, Any]) -> Key | None:
    """Works on a bare reference: the purpose of a Secret is the last part of its name."""
    key = key_of(secret)
    for purpose in (CA, KUBECONFIG):
        if key.name.endswith(purpose):
            return Key(key.namespace, key.name.removesuffix(purpose))
    return None


TRIGGERS = Triggers(
    name="kubeconfig",
    watches=(
        Watch(CLUSTER, fields=(*SPEC, "metadata.annotations")),
        Watch(SECRET, key=cluster_of_secret, reference=True, selector=CLUSTER_NAME_LABEL),
    ),
    rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER.group, ("clusters",), ("get",))),
)
