"""Starts `cluster_stack_release` when a ClusterStackRelease changes, a release is fetched or a Cluster is deleted.

The infrastructure provider's object for a release cannot be watched, because its kind is only known from the
ClusterStack, so the function is requeued and reads the object again.
"""

from __future__ import annotations

from shared import profiles
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.names import ADOPT_ANNOTATION
from shared.api.resources import CLUSTER, CLUSTER_CLASS, CLUSTER_STACK, CLUSTER_STACK_RELEASE
from shared.releases.events import FETCHED
from shared.releases.usage import FINALIZER, release_of
from shared.settings import CLASSES, STORAGE
from shared.triggers import MEMORY_TO_RENDER, READ_CRDS, SPEC, Rule, Subscription, Triggers, Watch, annotation

from .kinds import GROUPS
from .reconciled import is_reconciled

_WRITE = ("get", "list", "create", "patch", "delete")

TRIGGERS = Triggers(
    name="cluster_stack_release",
    profiles=profiles.ADDONS,
    watches=(
        Watch(
            CLUSTER_STACK_RELEASE,
            fields=(*SPEC, annotation(PAUSED_ANNOTATION), annotation(ADOPT_ANNOTATION)),
            changes=("add", "update"),
        ),
        Watch(CLUSTER, key=release_of, changes=("delete",), needs_primary=True),
    ),
    subscriptions=(Subscription(FETCHED),),
    is_reconciled=is_reconciled,
    finalizer=FINALIZER,
    rules=(
        Rule(CLUSTER_STACK.group, (CLUSTER_STACK.plural,), ("list",)),  # they name the sources of releases
        Rule(CLUSTER_STACK_RELEASE.group, (CLUSTER_STACK_RELEASE.plural,), ("get", "list", "patch")),
        Rule(CLUSTER.group, (CLUSTER.plural,), ("list",)),
        # The objects of class charts. RBAC cannot express "resources whose names end with templates": `kinds` refuses
        # the others. ConfigMaps, Secrets and further kinds need a Role or ClusterRole of their own.
        Rule(CLUSTER.group, (CLUSTER_CLASS.plural,), _WRITE),
        *(Rule(group, ("*",), _WRITE) for group in GROUPS),
        # The providers' objects for a release, of any kind.
        Rule("infrastructure.clusterstack.x-k8s.io", ("*",), ("get", "delete")),
        READ_CRDS,
    ),
    settings=(STORAGE, CLASSES),
    memory=MEMORY_TO_RENDER,
)
