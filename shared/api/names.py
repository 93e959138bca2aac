"""The names that tie a Cluster's belongings to it; users and other controllers rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.kube.resources import Key, key_of

ADDON_PREFIX = "cluster-addon-"
ADDON_FINALIZER = "clusteraddon.clusterstack.x-k8s.io"
"""`addon_create` gives it, `addon_apply` takes it away (and gives it to addons that others made)."""
ROLLBACK = "capi-functions.dev/rollback-from"
"""The annotation on a ClusterAddon that names the class to stay away from."""
CA_SUFFIX = "-ca"
KUBECONFIG_SUFFIX = "-kubeconfig"


def addon_of(cluster: Mapping[str, Any]) -> Key:
    """The ClusterAddon of a Cluster."""
    key = key_of(cluster)
    return Key(key.namespace, ADDON_PREFIX + key.name)


def authority_of(cluster: Key) -> Key:
    """The Secret with the cluster's CA: `tls.crt`, `tls.key`."""
    return Key(cluster.namespace, cluster.name + CA_SUFFIX)


def kubeconfig_of(cluster: Key) -> Key:
    """The Secret with the admin kubeconfig: `value`."""
    return Key(cluster.namespace, cluster.name + KUBECONFIG_SUFFIX)


def cluster_of_secret(secret: Mapping[str, Any], *purposes: str) -> Key | None:
    """The Cluster that a Secret of one of these purposes (suffixes) belongs to; works on a bare reference."""
    key = key_of(secret)
    for purpose in purposes:
        if key.name.endswith(purpose) and key.name != purpose:
            return Key(key.namespace, key.name.removesuffix(purpose))
    return None
