"""The results of a decision's effects, as `decide` gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.effects import Results
from shared.runtime import Decision


def results_of(decision: Decision, values: Mapping[type, Any], error: Exception | None = None) -> Results:
    """Returns the results of the decision's effects by their class; effects of other classes are left out."""
    found = [(effect, kind) for effect in decision.effects for kind in values if isinstance(effect, kind)]
    return Results([(effect, values[kind]) for effect, kind in found], error)
