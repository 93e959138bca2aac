"""The function `kubeconfig`: creates the kubeconfig Secrets of Clusters."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .existing import FIELD_MANAGER
from .observe import observe
from .triggers import TRIGGERS

# The other manager's last write to the status shows when `cluster` took over from core.
handle = Function(TRIGGERS, observe, decide, manager=FIELD_MANAGER).handle
