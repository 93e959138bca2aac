"""The names of the objects that belong to a Cluster; users and other controllers rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.kube.resources import Key, dig, key_of

ADDON_PREFIX = "cluster-addon-"
ADDON_FINALIZER = "clusteraddon.clusterstack.x-k8s.io"
"""The finalizer of ClusterAddons: `addon_create` sets it, `addon_apply` removes it (or sets it where it is missing)."""
ROLLBACK_ANNOTATION = "capi-functions.dev/rollback-from"
"""The annotation of a ClusterAddon that names the class it was rolled back from, which is not applied again."""
REMOVE_ANNOTATION = "capi-functions.dev/remove-addons"
"""The annotation of a Cluster that requests (`true`) the removal of its addons; they stay removed while it is set."""
SUCCESSOR_ANNOTATION = "capi-functions.dev/successor"
"""The annotation of a ClusterAddon that is created later than its Cluster, possibly after an earlier ClusterAddon."""
ADOPT_ANNOTATION = "capi-functions.dev/adopt"
"""The annotation by which a ClusterStackRelease takes over existing objects that belong to no cluster stack."""
OWNED_LABEL, OWNED = "clusterstack.x-k8s.io/instance", "owned"
"""The label of every object that is applied for a ClusterAddon, a ClusterStackRelease or a provider."""
STAGE_ANNOTATION = "ClusterAddonStage"
"""The annotation of a ClusterAddon that says whether its addons were created or upgraded."""
RENEW_ANNOTATION = "capi-functions.dev/kubeconfig-renew-days"
"""The annotation of a Cluster that says how many days before its expiry the kubeconfig is renewed; 0: never."""
REGENERATE_ANNOTATION = "capi-functions.dev/kubeconfig-regenerate"
"""The annotation of a Cluster that requests a new kubeconfig; it is removed once the kubeconfig is written."""
CERTIFICATES_ANNOTATION = "capi-functions.dev/certificates"
"""The annotation of a Cluster that lists the certificates to generate; empty for `CONTROL_PLANE_CERTIFICATES`."""
CONTROL_PLANE_CERTIFICATES = ("ca", "etcd", "proxy", "sa")
"""The certificates of a control plane with etcd of its own, as Cluster API names their Secrets: `<cluster>-<name>`."""
CA_SUFFIX = "-ca"
KUBECONFIG_SUFFIX = "-kubeconfig"


def addon_of(cluster: Mapping[str, Any]) -> Key:
    """Returns the key of a Cluster's ClusterAddon."""
    key = key_of(cluster)
    return Key(key.namespace, ADDON_PREFIX + key.name)


def ca_secret_of(cluster: Key) -> Key:
    """Returns the key of the Secret with the cluster's CA (`tls.crt`, `tls.key`)."""
    return Key(cluster.namespace, cluster.name + CA_SUFFIX)


def certificate_secret_of(cluster: Key, purpose: str) -> Key:
    """Returns the key of the Secret with the certificate for a purpose, such as `etcd`."""
    return Key(cluster.namespace, f"{cluster.name}-{purpose}")


def requested_certificates(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the certificates that the Cluster's annotation requests; none without it."""
    value = (dig(cluster, "metadata.annotations") or {}).get(CERTIFICATES_ANNOTATION)
    if value is None:
        return ()
    return tuple(str(value).replace(",", " ").split()) or CONTROL_PLANE_CERTIFICATES


def kubeconfig_secret_of(cluster: Key) -> Key:
    """Returns the key of the Secret with the admin kubeconfig (`value`)."""
    return Key(cluster.namespace, cluster.name + KUBECONFIG_SUFFIX)


def cluster_of_secret(secret: Mapping[str, Any], *suffixes: str) -> Key | None:
    """Returns the key of the Cluster that a Secret belongs to by its name; None without one of the suffixes.

    A bare reference to the Secret is enough.
    """
    key = key_of(secret)
    for suffix in suffixes:
        if key.name.endswith(suffix) and key.name != suffix:
            return Key(key.namespace, key.name.removesuffix(suffix))
    return None
