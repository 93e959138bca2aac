"""`provider_delete`, put together."""

from __future__ import annotations

from shared.providers.status import DELETING
from shared.providers.telling import refusal
from shared.runtime import Function

from .decide import decide, report
from .observe import observe
from .triggers import TRIGGERS

REFUSED = refusal(DELETING, "RequestRefused", status="True")
FUNCTION = Function(TRIGGERS, observe, decide, report=report, on_rejected=REFUSED)
handle = FUNCTION.handle
