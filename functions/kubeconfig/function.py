"""The function `kubeconfig`: creates the kubeconfig Secrets of Clusters."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide).handle
