"""The function `helm_chart_proxy`: makes a HelmReleaseProxy for each Cluster that a HelmChartProxy selects."""

from __future__ import annotations

from shared.runtime import Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

# A credential may be in any namespace, so the spec in an event is not trusted.
FUNCTION = Function(TRIGGERS, observe, decide, trusts_events=False, lock=KeyedLock("this HelmChartProxy"))

handle = FUNCTION.handle
