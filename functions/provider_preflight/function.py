"""The function `provider_preflight`: checks whether a provider may be installed."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PREFLIGHT_CHECK_PASSED
from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_rejected=report_rejection(PREFLIGHT_CHECK_PASSED, "RequestRefused"),
    sensitive_values=sensitive_values,
    trusts_events=False,
)
handle = FUNCTION.handle
