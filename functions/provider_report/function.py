"""The function `provider_report`: reports whether the components of an installed provider work."""

from __future__ import annotations

from shared.providers.error_reporting import report_rejection
from shared.providers.status import COMPONENTS_AVAILABLE
from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(
    TRIGGERS,
    observe,
    decide,
    on_rejected=report_rejection(COMPONENTS_AVAILABLE, "RequestRefused"),
    trusts_events=False,
).handle
