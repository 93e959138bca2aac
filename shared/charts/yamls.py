"""`shared.yamls`, under the name by which charts and components know it."""

from __future__ import annotations

from ..yamls import MAX_MERGED, MAX_NESTING, MAX_NODES, YAMLError, load, load_all

__all__ = ["MAX_MERGED", "MAX_NESTING", "MAX_NODES", "YAMLError", "load", "load_all"]
