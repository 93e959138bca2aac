"""Calls the CEL library in a worker process: only `shared.sandbox` imports this module."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .cel import ExpressionError, NotYet

sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))  # skips the command line, which imports ten times as slowly
import cel  # noqa: E402

_LOCAL = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
"""The variables that macros bind, such as `x` in `list.exists(x, ...)`; the library lists them with the others."""


def variables(expression: str) -> list[str]:
    """See `shared.cel.variables`."""
    try:
        named = set(cel.compile(expression).variables())
    except ValueError as error:
        raise ExpressionError(" ".join(str(error).split())) from error
    return sorted(named - set(_LOCAL.findall(expression)))


def evaluate(expression: str, objects: Mapping[str, Any]) -> bool:
    """See `shared.cel.evaluate`."""
    unbound = [name for name in variables(expression) if name not in objects]
    if unbound:
        bound = ", ".join(objects) or "none"
        raise ExpressionError(f"{expression!r} uses {', '.join(unbound)}; the objects listed for it are: {bound}")
    try:
        result = cel.evaluate(expression, dict(objects))
    except (KeyError, IndexError) as error:
        raise NotYet(f"{expression!r}: {error} does not exist yet") from error
    except Exception as error:  # wrong types, unknown functions, division by zero
        raise ExpressionError(f"{expression!r}: {' '.join(str(error).split())}") from error
    if not isinstance(result, bool):
        raise ExpressionError(f"{expression!r} evaluates to {type(result).__name__}, not to true or false")
    return result
