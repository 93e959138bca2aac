"""The function `provider_delete`: deletes the objects of a provider that is being deleted."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection
from shared.providers.status import DELETING
from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_rejected=report_rejection(DELETING, "RequestRefused", status="True"),
    trusts_events=False,
)
handle = FUNCTION.handle
