"""`provider_delete`, put together."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide, report
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(TRIGGERS, observe, decide, report=report)
handle = FUNCTION.handle
