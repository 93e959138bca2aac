"""Reports on a Cluster that no program has reconciled since its creation, so that its addons wait in vain.

Both a Cluster API core and the function `cluster` write `Available` in each reconciliation. So the first reconciliation
replaces this condition.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.api import cluster as cluster_api
from shared.api.conditions import get_condition, set_condition
from shared.api.core import core_state, is_new
from shared.api.resources import CLUSTER
from shared.clients import Clients
from shared.effects import Effect, Patch
from shared.kube import MANAGER, ApiError, Object, dig
from shared.runtime.recorder import KubernetesEvent, record_event

log = logging.getLogger("capi-functions")

AFTER = timedelta(minutes=1)
"""The time that a program has to reconcile a new Cluster."""
NOT_RECONCILED = "NotReconciled"
"""The reason of the condition and of the event."""
MESSAGE = (
    "No program has reconciled this Cluster since its creation. Start a Cluster API core, or the function cluster, "
    "which runs in the profiles standalone and all"
)
FIELD_MANAGER = f"{MANAGER}-unreconciled"
"""Not the manager of `cluster`, whose writes show that `cluster` has taken over from core."""

_TYPE = "Available"


@dataclass(frozen=True)
class ReportUnreconciled:
    """Sets the condition `Available` of a Cluster to Unknown, and records an event about the Cluster."""

    cluster: Object
    now: datetime

    def execute(self, clients: Clients) -> Object | None:
        """Returns the patched Cluster; None without the right to write its status. Raises `Conflict` like `Patch`."""
        before = dig(self.cluster, "status.conditions", [])
        conditions = set_condition(before, _TYPE, "Unknown", NOT_RECONCILED, MESSAGE, now=self.now)
        patch: dict[str, Any] = {"status": {"conditions": conditions}}
        try:
            stored = Patch(CLUSTER, self.cluster, patch, "status", FIELD_MANAGER).execute(clients)
        except ApiError as error:
            if error.status != 403:
                raise
            log.warning("%s of Cluster not reported: %s", NOT_RECONCILED, error)
            return None
        record_event(clients, self.cluster, KubernetesEvent(NOT_RECONCILED, MESSAGE, "Warning", once=True))
        return stored


def is_unreconciled(cluster: Object, now: datetime) -> bool:
    """Returns whether no program has written to the Cluster's status in the time for its first reconciliation."""
    created = cluster_api.created_at(cluster)
    return is_new(cluster) and core_state(cluster, now) == "none" and created is not None and now - created >= AFTER


def report_unreconciled(cluster: Object, now: datetime) -> tuple[Effect, ...]:
    """Returns the effect that reports the Cluster; none if the Cluster is reported already."""
    reported = get_condition(dig(cluster, "status.conditions"), _TYPE) or {}
    return () if reported.get("reason") == NOT_RECONCILED else (ReportUnreconciled(cluster, now),)
