"""The function `cluster_stack`: keeps the ClusterStackReleases that a ClusterStack should have."""

from __future__ import annotations

from shared.runtime import Function

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

handle = Function(TRIGGERS, observe, decide).handle
