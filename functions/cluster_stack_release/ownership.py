"""Determines which objects belong to a cluster stack, by their mark and by the inventories of its releases.

Several ClusterStacks can share a namespace, and objects of others live there. So a label on each object names its
cluster stack, and a release neither overwrites nor deletes an object without that label. Objects that an earlier
version or cluster-stack-operator has applied have no such label yet: the inventories of their releases name them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shared.api.names import ADOPT_ANNOTATION, OWNED, OWNED_LABEL
from shared.api.resources import CLUSTER_STACK_RELEASE
from shared.applier import inventory
from shared.applier.inventory import SYNCED, InventoryEntry
from shared.applier.owner import Mark, Owner
from shared.applier.policy import Policy
from shared.kube import dig, key_of
from shared.manifests import Identity
from shared.releases.naming import ReleaseName

from .kinds import may_be_of_class

STACK_LABEL = "clusterstack.x-k8s.io/cluster-stack"
"""The label of each object of a class chart; its value is the mark of the cluster stack."""

_MAX_LABEL = 63

Recorded = frozenset[tuple[Identity, str]]
"""Identity and uid of the objects in inventories; the uid is empty in cluster-stack-operator's inventories."""


def mark_of(name: ReleaseName) -> str:
    """Returns the mark of a cluster stack: its name, or a hash of a name that is too long for a label."""
    stack = name.stack
    return stack if len(stack) <= _MAX_LABEL else hashlib.sha256(stack.encode()).hexdigest()[:_MAX_LABEL]


def owner(name: ReleaseName) -> Owner:
    """Returns the cluster stack of a release as the owner that the applier compares objects with."""
    return Owner(
        CLUSTER_STACK_RELEASE.kind,
        {OWNED_LABEL: OWNED},
        Mark({STACK_LABEL: mark_of(name)}),
        exclusive=True,
        adopts_if=f"annotate the {CLUSTER_STACK_RELEASE.kind} with {ADOPT_ANNOTATION}: true",
    )


def release_inventory(release: Mapping[str, Any]) -> list[InventoryEntry]:
    """Returns the release's inventory without entries that only a user can have added to it.

    These are entries of other namespaces, and of kinds that no class chart may contain.
    """
    namespace = key_of(release).namespace
    entries = inventory.load(dig(release, "status.resources"))
    return [entry for entry in entries if entry.namespace == namespace and may_be_of_class(entry.group, entry.kind)]


def recorded(release: Mapping[str, Any], others: Iterable[Mapping[str, Any]], name: ReleaseName) -> Recorded:
    """Returns the objects that releases of the cluster stack have applied, except objects of other cluster stacks.

    Args:
        release: The release.
        others: The other releases in its namespace.
        name: The name of the release.
    """
    ours, foreign = _entries(release), set[Identity]()
    for other in others:
        other_name = ReleaseName.from_class_name(key_of(other).name)
        if other_name is not None and other_name.stack == name.stack:
            ours += _entries(other)
        else:
            foreign |= {entry.identity for entry in inventory.load(dig(other, "status.resources"))}
    return frozenset((entry.identity, entry.uid) for entry in ours if entry.identity not in foreign)


def _entries(release: Mapping[str, Any]) -> list[InventoryEntry]:
    """Returns the entries of applied objects. Excludes intents, because their objects may belong to others."""
    return [entry for entry in release_inventory(release) if entry.uid or entry.status == SYNCED]


def policy(release: Mapping[str, Any], name: ReleaseName, applied: Recorded) -> Policy:
    """Returns the policy of a sync, whose objects belong to the cluster stack.

    The sync does not wait for readiness: only later Clusters use the objects of a class.
    """
    adopts = dig(release, ("metadata", "annotations", ADOPT_ANNOTATION)) == "true"
    return Policy(replace(owner(name), recorded=applied, adopts=adopts), wait=False)
