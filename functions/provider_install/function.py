"""The function `provider_install`: applies the objects of a provider."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PROVIDER_INSTALLED
from shared.runtime import Function

from .conflict import on_conflict
from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_conflict=on_conflict,
    on_rejected=report_rejection(PROVIDER_INSTALLED, "InstallFailed"),
    sensitive_values=sensitive_values,
    trusts_events=False,
)
handle = FUNCTION.handle
