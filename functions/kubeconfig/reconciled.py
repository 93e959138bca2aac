"""Decides from the Cluster alone whether `kubeconfig` has nothing to do."""

from __future__ import annotations

from datetime import datetime

from shared.api.names import ca_secret_of, kubeconfig_secret_of
from shared.api.resources import SECRET
from shared.event import Event
from shared.kube import Key, Object, key_of
from shared.settings import SETTINGS

from .certificates import needs_secrets
from .decide import decide
from .need import why_not_now
from .observe import Observed
from .record import recorded
from .renewal import RENEW_SETTING, why_changed


def is_reconciled(cluster: Object, event: Event, now: datetime) -> bool:
    """Returns whether the Secrets are not needed yet, or match the conditions and are not due for renewal.

    An event about a Secret may contradict a condition; an event without an object may concern anything.
    """
    if needs_secrets(cluster, event):
        return False
    if not why_not_now(cluster) and _may_contradict(event, key_of(cluster)):
        return False
    existing, obstacle = recorded(cluster) or (None, "")
    if existing is not None and why_changed(existing, cluster, None):
        obstacle = ""  # it may not stand in the way of this
    observed = Observed(cluster, existing, obstacle or None, SETTINGS.get(RENEW_SETTING, ""))
    return decide(observed, now).asks_for_nothing(cluster)


def _may_contradict(event: Event, cluster: Key) -> bool:
    """Returns whether the event may be about the kubeconfig or its CA."""
    if event.kind == SECRET.kind:
        return event.key in (kubeconfig_secret_of(cluster), ca_secret_of(cluster))
    return event.object is None
