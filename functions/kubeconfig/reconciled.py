"""Decides from the Cluster alone whether `kubeconfig` has nothing to do."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.api.resources import SECRET
from shared.event import Event
from shared.kube import Object
from shared.settings import SETTINGS

from .certificates import annotation_fault, pending
from .decide import decide
from .need import why_not_now
from .observe import Observed
from .record import recorded
from .renewal import RENEW_SETTING, why_changed


def is_reconciled(cluster: Object, event: Event) -> bool:
    """Returns whether the Secrets are not needed yet, or are as the conditions record them, and not due for renewal.

    An event about a Secret may contradict the condition; one without an object may be about anything.
    """
    if pending(cluster) and not annotation_fault(cluster):
        return False
    if not why_not_now(cluster) and (event.kind == SECRET.kind or event.object is None):
        return False
    existing, obstacle = recorded(cluster) or (None, "")
    if existing is not None and why_changed(existing, cluster, None):
        obstacle = ""  # it may not stand in the way of this
    observed = Observed(cluster, existing, obstacle or None, SETTINGS.get(RENEW_SETTING, ""))
    return decide(observed, datetime.now(UTC)).asks_for_nothing(cluster)
