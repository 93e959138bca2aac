"""`addon_apply`, put together."""

from __future__ import annotations

from shared.api import cluster as contract
from shared.api.resources import CLUSTER
from shared.event import Event
from shared.kube import Object, deleting, dig
from shared.runtime import Function

from .decide import FINALIZER, decide, report
from .observe import applied, observe
from .triggers import TRIGGERS


def settled(addon: Object, event: Event) -> bool:
    """True where the addons are applied and the event's Cluster, if it carries one, still asks for the same."""
    if deleting(addon):
        return FINALIZER not in dig(addon, "metadata.finalizers", [])
    if event.kind == CLUSTER.kind:
        cluster = event.object
        if cluster is None or event.change == "delete" or contract.is_paused(cluster):
            return False
        return applied(addon, cluster)
    # Any other event leaves the wanted class as it is, and a Cluster that changed sends one of its own.
    return _at_rest(addon)


def _at_rest(addon: Object) -> bool:
    return (
        dig(addon, "status.ready") is True
        and bool(dig(addon, "spec.clusterStack"))
        and FINALIZER in dig(addon, "metadata.finalizers", [])
    )


FUNCTION = Function(TRIGGERS, observe, decide, settled, report)
handle = FUNCTION.handle
