"""`kind_cluster`, put together."""

from __future__ import annotations

from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.runtime import Function

from .decide import FINALIZER, decide, is_typed, report
from .observe import observe
from .runtime import RuntimeProblem, from_env
from .triggers import TRIGGERS


def is_reconciled(kind_cluster: Object, event: Event) -> bool:
    if deleting(kind_cluster):
        return not has_finalizer(kind_cluster, FINALIZER)
    return (
        event.object is not None
        and dig(kind_cluster, "status.ready") is True
        and dig(kind_cluster, "status.initialization.provisioned") is True
        and dig(kind_cluster, "spec.controlPlaneEndpoint.port") is not None
        and is_typed(kind_cluster)
        and _runs(kind_cluster)
    )


def _runs(kind_cluster: Object) -> bool:
    """Instances end without an event, a restart of this machine for one; looking costs no request."""
    try:
        return from_env().inspect(kind_cluster["metadata"]["uid"]).phase == "ready"
    except RuntimeProblem:
        return False


handle = Function(TRIGGERS, observe, decide, is_reconciled, report).handle
