"""Decides from the HelmChartProxy and the object in an event alone whether `helm_chart_proxy` has nothing to do."""

from __future__ import annotations

from datetime import datetime

from shared.api.cluster import is_paused
from shared.api.conditions import READY, get_condition
from shared.api.resources import HELM_CHART_PROXY, HELM_RELEASE_PROXY
from shared.event import Event
from shared.helm_proxies.names import HCP_FINALIZER
from shared.kube import Object, deleting, dig, has_finalizer


def is_reconciled(proxy: Object, event: Event, _now: datetime) -> bool:
    """Returns whether the status shows that all releases are as the spec wants them, and ready.

    The events of Clusters do not show this, because the Cluster is not in them.
    """
    if is_paused(proxy):
        return True
    if event.kind == HELM_RELEASE_PROXY.kind:
        return event.change == "add" and _is_ready(proxy) and _is_ready(event.as_object)
    if event.kind != HELM_CHART_PROXY.kind or event.change is None:
        return False
    return not deleting(proxy) and has_finalizer(proxy, HCP_FINALIZER) and _is_ready(proxy)


def _is_ready(obj: Object) -> bool:
    ready = get_condition(dig(obj, "status.conditions"), READY) or {}
    observed = dig(obj, "status.observedGeneration")
    return ready.get("status") == "True" and observed == dig(obj, "metadata.generation")
