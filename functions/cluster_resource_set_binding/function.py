"""The function `cluster_resource_set_binding`: deletes the ClusterResourceSetBinding of a deleted Cluster.

The binding records what was applied to that Cluster. For a later Cluster of the same name it would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.api.resources import CLUSTER, CLUSTER_RESOURCE_SET_BINDING
from shared.clients import Clients
from shared.effects import Delete, Results
from shared.kube import Key, Object, deleting, dig, key_of
from shared.running_core import running_core
from shared.runtime import Decision, Function, Request

from .triggers import TRIGGERS


@dataclass(frozen=True)
class Observed:
    """The binding, its Cluster, and the Cluster API core that runs; empty if none does."""

    binding: Object | None
    cluster: Object | None = None
    core: str = ""


def observe(clients: Clients, request: Request) -> Observed:
    """Reads the Cluster of the binding. Raises `ApiError`."""
    binding = request.primary
    if binding is None:
        return Observed(None)
    core = running_core(clients.management, clients.remembered)
    if core:
        return Observed(binding, core=core)
    # Cluster API before v1.4 wrote no clusterName. The names of binding and Cluster are equal.
    namespace, name = key_of(binding)
    key = Key(namespace, dig(binding, "spec.clusterName") or name)
    return Observed(binding, clients.management.find(CLUSTER, key))


def decide(observed: Observed, _now: datetime, _results: Results | None = None) -> Decision:
    """Deletes the binding if its Cluster is deleted."""
    if observed.binding is None:
        return Decision(message="the ClusterResourceSetBinding does not exist")
    if observed.core:
        return Decision(message=f"Cluster API core {observed.core} reconciles this object")
    if observed.cluster is not None and not deleting(observed.cluster):
        return Decision(message="the Cluster exists")
    return Decision(
        (Delete(CLUSTER_RESOURCE_SET_BINDING, observed.binding),), message="the Cluster of the binding is deleted"
    )


handle = Function(TRIGGERS, observe, decide).handle
