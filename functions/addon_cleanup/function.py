"""The function `addon_cleanup`: deletes load balancers and volumes of a Cluster that is being deleted."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide).handle
