"""The function `kind_cluster`: starts and deletes the control planes of KINDClusters."""

from __future__ import annotations

from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.runtime import Function

from .decide import FINALIZER, decide, has_condition_fields, report
from .observe import observe
from .runtime import RuntimeUnavailable, from_env
from .triggers import TRIGGERS


def is_reconciled(kind_cluster: Object, event: Event) -> bool:
    """Returns whether the status is complete and the instance is running."""
    if deleting(kind_cluster):
        return not has_finalizer(kind_cluster, FINALIZER)
    return (
        event.object is not None
        and dig(kind_cluster, "status.ready") is True
        and dig(kind_cluster, "status.initialization.provisioned") is True
        and dig(kind_cluster, "spec.controlPlaneEndpoint.port") is not None
        and has_condition_fields(kind_cluster)
        and _is_running(kind_cluster)
    )


def _is_running(kind_cluster: Object) -> bool:
    """Returns whether the instance runs. Checked at each event, since an instance may end without an event."""
    try:
        return from_env().inspect(kind_cluster["metadata"]["uid"]).phase == "ready"
    except RuntimeUnavailable:
        return False


handle = Function(TRIGGERS, observe, decide, is_reconciled, report).handle
