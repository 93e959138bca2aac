"""The intervals of waits, and the decision to wait. Every wait has a condition that says what is missing."""

from __future__ import annotations

from typing import Any

from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.effects import Effect, ensure_finalizer
from shared.event import Event
from shared.kube import Object
from shared.runtime import Decision

from .status import AddonStatusBuilder

# Seconds until the next reconcile.
CLUSTER_RETRY = 10.0
ASSETS_RETRY = 10.0
PARTIAL_RETRY = 20.0
CONDITION_RETRY = 20.0
READY_RETRY = 5.0
BROKEN_RETRY = 60.0
"""The interval for problems that only a user can solve: attempts are rare, but do not end."""


def wait(
    builder: AddonStatusBuilder, seconds: float, message: str, *, reply: Event | None = None, **fields: Any
) -> Decision:
    """Returns the decision to requeue after `seconds`; `fields` are further fields of the status."""
    effects = ensure_addon_finalizer(builder.obj)
    return builder.decision(*effects, requeue_after=seconds, reply=reply, message=message, ready=False, **fields)


def ensure_addon_finalizer(addon: Object) -> tuple[Effect, ...]:
    """Returns the effect that adds the finalizer if it is missing.

    The finalizer must exist before any effect that has to be undone when the ClusterAddon is deleted.
    """
    return ensure_finalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)
