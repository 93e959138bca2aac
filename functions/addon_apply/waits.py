"""How long an addon waits for what, and the decision to do so. Every wait has a condition that says what for."""

from __future__ import annotations

from shared.api.names import ADDON_FINALIZER
from shared.api.resources import CLUSTER_ADDON
from shared.effects import Effect, ensure_finalizer
from shared.event import Event
from shared.kube import Object
from shared.runtime import Decision

from .status import AddonStatus

# Seconds until the next look.
CLUSTER_RETRY = 10.0
ASSETS_RETRY = 10.0
PARTIAL_RETRY = 20.0
CONDITION_RETRY = 20.0
READY_RETRY = 5.0
BROKEN_RETRY = 60.0
"""For what only a person can mend: slow, but never given up."""


def wait(
    builder: AddonStatus, seconds: float, message: str, *, reply: Event | None = None, **fields: object
) -> Decision:
    """To look again after so many seconds; `fields` go into the status."""
    return Decision(
        effects=ensure_addon_finalizer(builder.obj),
        status=builder.status(ready=False, **fields),
        kubernetes_events=tuple(builder.kubernetes_events),
        requeue_after=seconds,
        reply=reply,
        message=message,
    )


def ensure_addon_finalizer(addon: Object) -> tuple[Effect, ...]:
    """Before anything that is to be undone with the addon."""
    return ensure_finalizer(CLUSTER_ADDON, addon, ADDON_FINALIZER)
