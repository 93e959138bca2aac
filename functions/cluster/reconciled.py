"""Decides from the Cluster and the object in an event alone whether `cluster` has nothing to do.

There is no second list of conditions for this, because `decide` judges the recorded status.
"""

from __future__ import annotations

from datetime import datetime

from shared.api.core import core_state
from shared.event import Event
from shared.kube import Object

from .decide import decide
from .descendants import is_about_machines
from .observed import Observed
from .recorded import recorded


def is_reconciled(cluster: Object, event: Event, now: datetime) -> bool:
    """Returns whether the event clearly needs no reconciliation, without further reads."""
    if event.object is None or event.change == "delete" or is_about_machines(event):
        return False
    core = core_state(cluster, now)
    observed = Observed(cluster, core=core) if core in ("live", "late") else recorded(cluster, event, core)
    return observed is not None and decide(observed, now).asks_for_nothing(cluster)
