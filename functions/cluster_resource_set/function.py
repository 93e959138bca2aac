"""The function `cluster_resource_set`: applies the objects of a ClusterResourceSet to all Clusters that it selects."""

from __future__ import annotations

from shared.runtime import Function
from shared.runtime.keyed_lock import KeyedLock

from .decide import decide
from .observe import observe
from .triggers import TRIGGERS

FUNCTION = Function(TRIGGERS, observe, decide, lock=KeyedLock("this ClusterResourceSet", limit=3, each=1))
"""The limit bounds the memory for objects. A namespace has one slot, because its clusters may answer slowly."""

handle = FUNCTION.handle
