"""The triggers of `cluster`: the Cluster, what it refers to, its Machines, and the deletion of its ClusterAddon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import profiles
from shared.api.cluster import (
    CLUSTER_NAME_LABEL,
    CONTROL_PLANE_LABEL,
    OK_TO_DELETE_ANNOTATION,
    PAUSING,
    TOPOLOGY_RECONCILED,
    class_name,
    conditions,
)
from shared.api.contract import provider_kind
from shared.api.core import CORE_ANNOTATION
from shared.api.resources import (
    API_SERVER_SOURCE,
    CLUSTER,
    CLUSTER_ADDON,
    CLUSTER_CLASS,
    HELM_RELEASE_PROXY,
    KIND_CLUSTER,
)
from shared.kube import Key, key_of, owners
from shared.kube.resources import dig
from shared.settings import INSTALLATION, NETWORK
from shared.triggers import FIND_CONTROLLERS, READ_CRDS, DefinedKinds, Rule, Triggers, Watch, annotation, label

from .descendants import MACHINES, POOL_LABEL
from .probe import has_kubeconfig
from .reconciled import is_reconciled
from .references import ENDINGS, GROUPS
from .status import FINALIZER, foreign_conditions


def owning_cluster(obj: Mapping[str, Any]) -> Key:
    """Returns the key of the Cluster that an object belongs to.

    The Cluster is found by owner reference, else by label; before either is set, by its name, which equals the
    object's.
    """
    key = key_of(obj)
    for reference in owners(obj, CLUSTER.kind, CLUSTER.group):
        return Key(key.namespace, reference["name"])
    return Key(key.namespace, (dig(obj, "metadata.labels") or {}).get(CLUSTER_NAME_LABEL) or key.name)


REFERENCED = Watch(
    KIND_CLUSTER,
    key=owning_cluster,
    fields=(
        "spec.controlPlaneEndpoint",
        "status",
        "metadata.ownerReferences",
        label(CLUSTER_NAME_LABEL),
        "metadata.deletionTimestamp",
    ),
    needs_primary=True,
)
"""The watch of an object that a Cluster refers to."""


def named_cluster(obj: Mapping[str, Any]) -> Key | None:
    """Returns the key of the Cluster that a Machine, or an owner of Machines, names; None if its content is missing."""
    name = dig(obj, "spec.clusterName") or (dig(obj, "metadata.labels") or {}).get(CLUSTER_NAME_LABEL)
    return Key(key_of(obj).namespace, name) if name else None


# Finalizers are not among them, because `cluster` needs no event when it adds its own. If somebody removes it, the
# sweep sends an event.
CLUSTER_FIELDS = (
    "metadata.generation",
    "metadata.deletionTimestamp",
    *PAUSING,
    annotation(OK_TO_DELETE_ANNOTATION),
    annotation(CORE_ANNOTATION),
)


def relevant_in_cluster(cluster: Mapping[str, Any]) -> object:
    """Returns the values of a Cluster whose change starts the function.

    They are `CLUSTER_FIELDS`, and whether the Cluster shows that there is an API server to connect to. Conditions of
    other programs count if `Available` may summarize them: the gates, or any condition if the class may have gates.
    """
    gates, has_class = dig(cluster, "spec.availabilityGates"), class_name(cluster) is not None
    types = {TOPOLOGY_RECONCILED, *(gate.get("conditionType") for gate in gates or ())}
    summarized = [
        _told(condition)
        for condition in foreign_conditions(conditions(cluster))
        if condition.get("type") in types or (gates is None and has_class)
    ]
    return [Watch(CLUSTER, fields=CLUSTER_FIELDS).relevant(cluster), has_kubeconfig(dict(cluster)), summarized]


def relevant_in_machine(obj: Mapping[str, Any]) -> object:
    """Returns the values of a Machine, or an owner of Machines, whose change starts the function.

    The Cluster's conditions and counters are computed from them.
    """
    reported = [_told(one) for one in conditions(obj)]
    counters = {name: value for name, value in dig(obj, "status", {}).items() if name.lower().endswith("replicas")}
    roles = [name in dig(obj, "metadata.labels", {}) for name in (CONTROL_PLANE_LABEL, POOL_LABEL)]
    metadata = [named_cluster(obj), roles, dig(obj, "metadata.ownerReferences"), dig(obj, "metadata.deletionTimestamp")]
    status = [dig(obj, f"status.{name}") for name in ("nodeRef", "versions", "nodeInfo.kubeletVersion")]
    return [metadata, dig(obj, "spec.replicas"), dig(obj, "spec.version"), reported, counters, status]


def _told(condition: Mapping[str, Any]) -> object:
    return [condition.get(name) for name in ("type", "status", "reason", "message")]


TRIGGERS = Triggers(
    name="cluster",
    profiles=profiles.CLUSTERS,
    watches=(
        Watch(CLUSTER, fields=CLUSTER_FIELDS, digest=relevant_in_cluster, changes=("add", "update"), filtered=True),
        REFERENCED,
        *(Watch(kind, key=named_cluster, digest=relevant_in_machine, needs_primary=True) for kind in MACHINES),
        Watch(CLUSTER_ADDON, key=owning_cluster, changes=("delete",), needs_primary=True),
    ),
    # Infrastructure and control-plane objects, by the names that Cluster API's contracts require of their kinds.
    defined_kinds=DefinedKinds(
        REFERENCED,
        endings=ENDINGS,
        without_group=CLUSTER.group,
        groups=GROUPS,
        role_label="cluster.x-k8s.io/aggregate-to-manager",
        definition=provider_kind,
    ),
    is_reconciled=is_reconciled,
    finalizer=FINALIZER,
    settings=(INSTALLATION, NETWORK),
    rules=(
        Rule(CLUSTER.group, ("clusters",), ("patch",)),
        Rule(CLUSTER_CLASS.group, (CLUSTER_CLASS.plural,), ("get",)),
        # A Cluster may refer to objects of any provider. Other API groups have a ClusterRole with `role_label`.
        *(Rule(group, ("*",), ("get", "list", "patch", "delete")) for group in GROUPS),
        Rule(KIND_CLUSTER.group, (KIND_CLUSTER.plural,), ("get", "list", "patch", "delete")),
        Rule(
            CLUSTER.group,
            ("machines", "machinedeployments", "machinesets", "machinepools"),
            ("get", "list", "delete"),
        ),
        Rule(CLUSTER_ADDON.group, (CLUSTER_ADDON.plural,), ("get", "list", "delete")),
        Rule(HELM_RELEASE_PROXY.group, (HELM_RELEASE_PROXY.plural,), ("list", "delete")),
        Rule("", ("secrets",), ("get", "list", "delete")),
        *FIND_CONTROLLERS,
        # Do Knative's event sources watch the kinds of the providers?
        Rule(API_SERVER_SOURCE.group, (API_SERVER_SOURCE.plural,), ("list",), everywhere=True),
        READ_CRDS,
    ),
)
