"""The function `addon_apply`: applies the addons of a Cluster's release to the workload cluster."""

from __future__ import annotations

from collections.abc import Collection

from shared.addons.context import ReleaseContext
from shared.runtime import Function
from shared.runtime.keyed_lock import KeyedLock

from .conflict import on_conflict
from .decide import decide
from .observe import Observed, observe
from .triggers import TRIGGERS


def _looked_up_secrets(observed: Observed) -> Collection[str]:
    """Returns the values of Secrets that templates read by `lookup`, because any rendered object may contain them."""
    live = observed.context.capabilities.live if isinstance(observed.context, ReleaseContext) else None
    return live.secrets if live is not None else ()


FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_conflict=on_conflict,
    sensitive_values=_looked_up_secrets,
    is_sole_writer=True,
    lock=KeyedLock("this addon"),
)

handle = FUNCTION.handle
