"""The function `addon_cleanup`: deletes load balancers and volumes of a Cluster that is being deleted."""

from __future__ import annotations

from datetime import datetime

from shared.api.hooks import HookDeadlines
from shared.runtime import Decision, Function

from .decide import decide, report
from .observe import Observed, observe
from .triggers import TRIGGERS


def _decide(observed: Observed, now: datetime) -> Decision:
    return decide(observed, now, HookDeadlines.from_env())


handle = Function(TRIGGERS, observe, _decide, report).handle
