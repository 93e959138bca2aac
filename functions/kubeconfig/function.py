"""The function `kubeconfig`: creates the kubeconfig Secrets of Clusters."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .existing import FIELD_MANAGER
from .observe import observe
from .triggers import TRIGGERS

# Beside core, the time of the last write to a Cluster's status by the other manager shows when `cluster` took over.
handle = Function(TRIGGERS, observe, decide, manager=FIELD_MANAGER).handle
