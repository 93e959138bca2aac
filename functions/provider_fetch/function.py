"""The function `provider_fetch`: downloads the components of a provider's version to object storage."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection, sensitive_values
from shared.providers.status import PROVIDER_INSTALLED
from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(
    TRIGGERS,
    observe,
    decide,
    on_rejected=report_rejection(PROVIDER_INSTALLED, "ComponentsFetchError"),
    sensitive_values=sensitive_values,
    trusts_events=False,
)
handle = FUNCTION.handle
