"""The function `kubeconfig`: creates the kubeconfig Secrets of Clusters."""

from __future__ import annotations

from shared.api.cluster import KUBECONFIG_AVAILABLE, wants_kubeconfig
from shared.api.conditions import is_true
from shared.api.resources import SECRET
from shared.event import Event
from shared.kube import Object, dig
from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the condition records that the Secret exists; an event about a Secret may contradict it."""
    if not wants_kubeconfig(cluster):
        return True
    conditions = dig(cluster, "status.conditions", [])
    return event.kind != SECRET.kind and event.object is not None and is_true(conditions, KUBECONFIG_AVAILABLE)


handle = Function(TRIGGERS, observe, decide, is_reconciled).handle
