"""The function `cluster`: reconciles a Cluster with the objects that it refers to."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide).handle
