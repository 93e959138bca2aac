"""Decides from the Cluster alone whether `kubeconfig` has nothing to do."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.api.cluster import KUBECONFIG_AVAILABLE
from shared.api.conditions import get_condition
from shared.api.resources import SECRET
from shared.event import Event
from shared.kube import Object, dig, owner_reference

from .decide import GENERATED, decide
from .need import why_not_now
from .observe import Observed


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the Secret is not needed yet, or is as the condition records it.

    An event about a Secret may contradict the condition; one without an object may be about anything.
    """
    if why_not_now(cluster):
        return True
    existing = _recorded(cluster)
    if existing is None or event.kind == SECRET.kind or event.object is None:
        return False
    return decide(Observed(cluster, existing), datetime.now(UTC)).asks_for_nothing(cluster)


def _recorded(cluster: Object) -> Object | None:
    """Returns the owner references of the Secret as the condition records it; None if it does not exist yet."""
    condition = get_condition(dig(cluster, "status.conditions"), KUBECONFIG_AVAILABLE) or {}
    if condition.get("status") != "True":
        return None
    is_ours = condition.get("reason") == GENERATED
    return {"metadata": {"ownerReferences": [owner_reference(cluster)] if is_ours else []}}
