"""Decides from a ClusterStack alone whether there is nothing to do before its source is read again."""

from __future__ import annotations

from datetime import datetime

from shared.api import cluster as cluster_api
from shared.api.resources import CLUSTER_STACK
from shared.effects import would_change
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer

from .conditions import StackStatusBuilder, set_conditions
from .deletion import FINALIZER
from .observe import Observed, SourceListing
from .provider import ProviderTemplate

_TEMPLATE = ProviderTemplate("", "", {})
_USABLE: Object = {"status": {"ready": True}}


def is_reconciled(stack: Object, event: Event, now: datetime) -> bool:
    """Returns whether a ClusterStack that is seen for the first time reports no problem, or its pause.

    Otherwise each event is a reason to read its source, its template and its releases. A timer reads them, too.
    """
    builder, status = StackStatusBuilder(stack, now), dig(stack, "status", {})
    if cluster_api.is_paused(stack):
        return not would_change(status, builder.paused_status())
    if deleting(stack):
        return not has_finalizer(stack, FINALIZER)
    if event.change != "add" or event.kind != CLUSTER_STACK.kind or not has_finalizer(stack, FINALIZER):
        return False
    set_conditions(builder, Observed(stack, listing=SourceListing(())), _TEMPLATE, [_USABLE])
    return not would_change(status, builder.status(observedGeneration=dig(stack, "metadata.generation")))
