"""The function `kind_cluster`: starts and deletes the control planes of KINDClusters."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide, trusts_events=False).handle
