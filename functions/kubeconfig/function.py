"""`kubeconfig`, put together."""

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


def settled(cluster: Object, event: Event) -> bool:
    """The condition remembers that the Secret is there; only an event about a Secret can say otherwise."""
    if not wants_kubeconfig(cluster):
        return True
    conditions = dig(cluster, "status.conditions", [])
    return event.kind != SECRET.kind and event.object is not None and is_true(conditions, KUBECONFIG_AVAILABLE)


handle = Function(TRIGGERS, observe, decide, settled).handle
