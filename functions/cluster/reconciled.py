"""Decides from the Cluster and the object in an event alone whether `cluster` has nothing to do."""

from __future__ import annotations

from datetime import datetime

from shared.api.core import core_state
from shared.event import Event
from shared.kube import Object
from shared.runtime import reconciled_by

from .decide import decide
from .descendants import is_about_machines
from .observed import Observed
from .recorded import recorded


def _shown(cluster: Object, event: Event, now: datetime) -> Observed | None:
    """Returns the state that the Cluster and the event show; None if more has to be read."""
    if event.object is None or event.change == "delete" or is_about_machines(event):
        return None
    core = core_state(cluster, now)
    return Observed(cluster, core=core) if core in ("live", "late") else recorded(cluster, event, core)


is_reconciled = reconciled_by(decide, _shown)
