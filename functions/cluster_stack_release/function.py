"""The function `cluster_stack_release`: applies the class chart of a release in the management cluster."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide).handle
