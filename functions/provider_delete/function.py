"""`provider_delete`, put together."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection
from shared.providers.status import DELETING
from shared.runtime import Function

from .decide import decide, report
from .observe import observe
from .triggers import TRIGGERS

REFUSED = report_rejection(DELETING, "RequestRefused", status="True")
FUNCTION = Function(TRIGGERS, observe, decide, report=report, on_rejected=REFUSED)
handle = FUNCTION.handle
