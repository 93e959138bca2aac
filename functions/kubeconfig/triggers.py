"""The triggers of `kubeconfig`: an endpoint, a new CA, a kubeconfig or certificate that is deleted, annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import CLUSTER_NAME_LABEL, PAUSING
from shared.api.core import CORE_ANNOTATION
from shared.api.names import (
    CERTIFICATES_ANNOTATION,
    KUBECONFIG_SUFFIX,
    REGENERATE_ANNOTATION,
    RENEW_ANNOTATION,
    cluster_of_secret,
)
from shared.api.resources import CLUSTER, SECRET
from shared.event import is_reference
from shared.kube import Key, key_of
from shared.settings import INSTALLATION, KUBECONFIGS
from shared.triggers import Rule, Triggers, Watch, annotation

from .certificates import KNOWN
from .existing import FIELD_MANAGER
from .need import is_status_current
from .reconciled import is_reconciled


def cluster_of(secret: Mapping[str, Any]) -> Key | None:
    """Returns the key of the Cluster that a kubeconfig or certificate Secret belongs to."""
    return cluster_of_secret(secret, KUBECONFIG_SUFFIX, *(f"-{purpose}" for purpose in KNOWN))


def cluster_with_current_status(cluster: Mapping[str, Any]) -> Key | None:
    """Returns the key of a Cluster whose status is current; always for a bare reference, which has no status."""
    return key_of(cluster) if is_reference(cluster) or is_status_current(cluster) else None


FIELDS = (
    "spec.controlPlaneEndpoint",
    "spec.controlPlaneRef",
    *PAUSING,
    "status.phase",
    annotation(RENEW_ANNOTATION),
    annotation(REGENERATE_ANNOTATION),
    annotation(CERTIFICATES_ANNOTATION),
    annotation(CORE_ANNOTATION),
)


def digest(cluster: Mapping[str, Any]) -> object:
    """Returns the values of which an update must change at least one to start the function."""
    return [Watch(CLUSTER, fields=FIELDS).relevant(cluster), is_status_current(cluster)]


TRIGGERS = Triggers(
    name="kubeconfig",
    profiles=profiles.KUBECONFIG,
    watches=(
        Watch(
            CLUSTER,
            key=cluster_with_current_status,
            fields=FIELDS,
            digest=digest,
            changes=("add", "update"),
            filtered=True,
        ),
        Watch(
            SECRET,
            key=cluster_of,
            reference=True,
            selector=CLUSTER_NAME_LABEL,
            needs_primary=True,
            creator=FIELD_MANAGER,
        ),
    ),
    is_reconciled=is_reconciled,
    rules=(Rule("", ("secrets",), ("get", "create", "patch")), Rule(CLUSTER.group, ("clusters",), ("get", "patch"))),
    settings=(INSTALLATION, KUBECONFIGS),
)
