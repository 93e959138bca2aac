"""The function `cluster_stack_release`: applies the class chart of a release in the management cluster."""

from __future__ import annotations

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, is_true
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer
from shared.releases.usage import FINALIZER
from shared.runtime import Function
from shared.runtime.status import PAUSED

from .decide import decide
from .observe import observe
from .report import report
from .triggers import TRIGGERS


def is_reconciled(release: Object, _event: Event) -> bool:
    """Returns whether the release is ready: the content of a release never changes afterwards."""
    if deleting(release):
        return not has_finalizer(release, FINALIZER)
    conditions = dig(release, "status.conditions", [])
    if cluster_api.is_paused(release):
        return is_true(conditions, PAUSED)
    return (
        dig(release, "status.ready") is True
        and is_true(conditions, "Ready")
        and get_condition(conditions, PAUSED) is None
        and has_finalizer(release, FINALIZER)
    )


handle = Function(TRIGGERS, observe, decide, is_reconciled, report).handle
