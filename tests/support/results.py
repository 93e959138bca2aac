"""The results of a decision's effects, as `report` gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.effects import Results
from shared.runtime import Decision


def results_of(decision: Decision, values: Mapping[type, Any], error: Exception | None = None) -> Results:
    """Returns the results of the decision's effects by their class; effects of other classes are left out."""
    return Results([(effect, values[type(effect)]) for effect in decision.effects if type(effect) in values], error)
