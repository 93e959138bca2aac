"""`provider_report`, put together."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(TRIGGERS, observe, decide)
handle = FUNCTION.handle
