"""The triggers of `cluster_stack`: its ClusterStack, and the releases that it owns.

Clusters are not among them, because a Cluster does not refer to the ClusterStack of its class. Each read of the source
also checks which releases Clusters still use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER, CLUSTER_STACK, CLUSTER_STACK_RELEASE, SECRET
from shared.kube import Key, dig, key_of, owners
from shared.settings import NETWORK, RELEASE_SOURCES, STORAGE
from shared.triggers import ANNOTATIONS, READ_CRDS, SPEC, Rule, Triggers, Watch

from .deletion import FINALIZER
from .reconciled import is_reconciled


def stack_of(release: Mapping[str, Any]) -> Key | None:
    """Returns the key of the ClusterStack that owns a release; None for a bare reference, which has no owners."""
    for reference in owners(release, CLUSTER_STACK.kind, CLUSTER_STACK.group):
        return Key(key_of(release).namespace, reference["name"])
    return None


def digest(stack: Mapping[str, Any]) -> object:
    """Returns the values of which an update must change at least one to start the function.

    Labels and annotations of the stack matter only where they are copied to the provider's objects.
    """
    copies = dig(stack, "spec.noProvider") is not True and dig(stack, "spec.providerRef") is not None
    copied = [dig(stack, path) for path in ("metadata.labels", ANNOTATIONS)] if copies else []
    return [*(dig(stack, path) for path in SPEC), cluster_api.is_paused(stack), copied]


TRIGGERS = Triggers(
    name="cluster_stack",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER_STACK,
            fields=(*SPEC, ANNOTATIONS, "metadata.labels"),
            digest=digest,
            changes=("add", "update"),
        ),
        Watch(
            CLUSTER_STACK_RELEASE,
            key=stack_of,
            fields=("status", "metadata.deletionTimestamp"),
            changes=("update", "delete"),
            needs_primary=True,
        ),
    ),
    is_reconciled=is_reconciled,
    finalizer=FINALIZER,
    rules=(
        Rule(CLUSTER_STACK.group, (CLUSTER_STACK.plural,), ("get", "patch")),
        Rule(CLUSTER_STACK_RELEASE.group, (CLUSTER_STACK_RELEASE.plural,), ("get", "list", "create", "delete")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("list",)),
        Rule(SECRET.group, (SECRET.plural,), ("get",)),  # credentials of its own sources
        # Templates and release objects of providers; objects of another group need a rule of their own.
        Rule("infrastructure.clusterstack.x-k8s.io", ("*",), ("get", "create", "patch")),
        READ_CRDS,
    ),
    settings=(STORAGE, RELEASE_SOURCES, NETWORK),
)
