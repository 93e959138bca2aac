"""The function `helm_release_proxy`: the Helm release of a chart in one workload cluster."""

from __future__ import annotations

from collections.abc import Collection

from shared.runtime import Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .findings import Observed
from .observe import observe
from .triggers import TRIGGERS


def _confidential(observed: Observed) -> Collection[str]:
    return observed.confidential


FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    sensitive_values=_confidential,
    trusts_events=False,
    lock=KeyedLock("this release"),
)
"""Events are not trusted, because an invented one could name another chart."""

handle = FUNCTION.handle
